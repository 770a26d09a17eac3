//! The folder of a secret in a pod, as the kubelet makes and changes it.

use std::{
    fs::{self, Permissions},
    os::unix::fs::{PermissionsExt as _, symlink},
    path::{Path, PathBuf},
};

/// The link to the files of now. The kubelet replaces it, so that all of them change at once.
const CURRENT: &str = "..data";

/// A folder of a secret.
pub(crate) struct Mounted {
    folder: tempfile::TempDir,
    versions: u32,
}

impl Mounted {
    pub(crate) fn new(files: &[(&str, String)]) -> Self {
        let mut mounted = Self { folder: tempfile::tempdir().unwrap(), versions: 0 };
        mounted.write(files);
        for (name, _) in files {
            symlink(Path::new(CURRENT).join(name), mounted.path().join(name)).unwrap();
        }
        mounted
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Puts these files in place of those of the same names.
    pub(crate) fn write(&mut self, files: &[(&str, String)]) {
        let before = fs::read_link(self.path().join(CURRENT));
        self.versions += 1;
        let version = PathBuf::from(format!("..version_{}", self.versions));
        let folder = self.path().join(&version);
        fs::create_dir(&folder).unwrap();
        for (name, content) in files {
            fs::write(folder.join(name), content).unwrap();
            // The `defaultMode` of the manifests.
            fs::set_permissions(folder.join(name), Permissions::from_mode(0o440)).unwrap();
        }
        let next = self.path().join("..data_tmp");
        symlink(&version, &next).unwrap();
        fs::rename(&next, self.path().join(CURRENT)).unwrap();
        if let Ok(before) = before {
            fs::remove_dir_all(self.path().join(before)).unwrap();
        }
    }
}
