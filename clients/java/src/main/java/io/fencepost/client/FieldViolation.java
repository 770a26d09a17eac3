package io.fencepost.client;

/**
 * A field of a request that breaks a rule.
 *
 * @param field the path of the field
 * @param description the rule
 */
public record FieldViolation(String field, String description) {}
