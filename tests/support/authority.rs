//! A certificate authority whose certificates are files.
#![allow(dead_code, reason = "no test uses all of it")]
#![allow(clippy::unwrap_used, reason = "test code")]

use crate::certificates::{self, Identity, THIS_MACHINE, Valid};
use std::{
    fs,
    path::{Path, PathBuf},
};

/// A certificate authority with a folder for the files that it makes.
pub(crate) struct Authority {
    authority: certificates::Authority,
    folder: tempfile::TempDir,
}

/// A certificate and its key, as files.
#[derive(Clone, Debug)]
pub(crate) struct Files {
    pub(crate) certificate: PathBuf,
    pub(crate) key: PathBuf,
}

impl Authority {
    pub(crate) fn new(name: &str) -> Self {
        let (authority, folder) = (certificates::Authority::new(name), tempfile::tempdir().unwrap());
        fs::write(folder.path().join("ca.pem"), authority.pem()).unwrap();
        Self { authority, folder }
    }

    /// The certificate of the authority.
    pub(crate) fn file(&self) -> PathBuf {
        self.folder.path().join("ca.pem")
    }

    /// A certificate for a server on this machine.
    pub(crate) fn server(&self) -> Files {
        self.issue("server", &THIS_MACHINE, Valid::Now)
    }

    /// A certificate for a client.
    pub(crate) fn client(&self) -> Files {
        self.issue("client", &[], Valid::Now)
    }

    /// A certificate for these hosts. Replaces that of the same file name.
    pub(crate) fn issue(&self, file: &str, hosts: &[&str], valid: Valid) -> Files {
        write(self.folder.path(), file, &self.authority.issue_for(file, hosts, valid))
    }

    /// The certificate and the key of the authority itself, as servers with a self-signed certificate use them.
    pub(crate) fn own(&self) -> Files {
        write(self.folder.path(), "own", &self.authority.own())
    }

    /// A certificate for this machine that no authority has issued.
    pub(crate) fn self_signed(&self) -> Files {
        write(self.folder.path(), "self-signed", &certificates::self_signed("self-signed"))
    }
}

fn write(folder: &Path, name: &str, identity: &Identity) -> Files {
    let files = Files { certificate: folder.join(format!("{name}.pem")), key: folder.join(format!("{name}.key")) };
    fs::write(&files.certificate, &identity.cert).unwrap();
    fs::write(&files.key, &identity.key).unwrap();
    files
}
