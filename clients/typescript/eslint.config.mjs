import js from "@eslint/js";
import tseslint from "typescript-eslint";

export default tseslint.config(
  { ignores: ["src/gen/", "node_modules/", "test/package/"] },
  js.configs.recommended,
  {
    files: ["**/*.ts"],
    extends: [tseslint.configs.strictTypeChecked, tseslint.configs.stylisticTypeChecked],
    languageOptions: { parserOptions: { projectService: true, tsconfigRootDir: import.meta.dirname } },
    rules: {
      "@typescript-eslint/no-unused-vars": ["error", { varsIgnorePattern: "^_", argsIgnorePattern: "^_" }],
      // Reasons of signals are what the caller has chosen.
      "@typescript-eslint/only-throw-error": "off",
    },
  },
  {
    files: ["test/**/*.ts"],
    // node:test waits for its suites and tests by itself.
    rules: { "@typescript-eslint/no-floating-promises": ["error", { allowForKnownSafeCalls: [
      { from: "package", package: "node:test", name: ["test", "describe", "it", "suite"] },
    ] }] },
  },
);
