//! Managed services, which refuse CONFIG SET, and where an operator changes a setting there. From the pages of the
//! vendors, November 2026; docs/operating/engines.md has more of them.

/// A managed service.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Service {
    pub(super) name: &'static str,
    /// Where settings are changed: the end of "set it …".
    pub(super) settings: &'static str,
}

const PARAMETER_GROUP: &str = "in a parameter group of your own (the default one cannot be changed), and assign that";

/// The service of a Redis with this host name, which says this of its system in INFO.
pub(super) fn of(host: &str, os: Option<&str>) -> Option<Service> {
    let host = host.to_ascii_lowercase();
    let host = host.trim_end_matches('.');
    let ends = |suffix: &str| host.ends_with(suffix);
    let is_aws = ends(".amazonaws.com") || ends(".amazonaws.com.cn");
    let (name, settings) = match os {
        Some("Amazon ElastiCache") => ("Amazon ElastiCache", PARAMETER_GROUP),
        _ if is_aws && host.contains(".memorydb.") => ("Amazon MemoryDB", PARAMETER_GROUP),
        _ if is_aws && host.contains(".cache.") => ("Amazon ElastiCache", PARAMETER_GROUP),
        _ if ends(".aivencloud.com") => ("Aiven", "in the advanced configuration of the service"),
        _ if ends(".db.ondigitalocean.com") => ("DigitalOcean", "in the settings of the database (eviction policy)"),
        _ => return None,
    };
    Some(Service { name, settings })
}

#[cfg(test)]
mod tests {
    use super::of;

    #[test]
    fn a_service_is_told_by_the_name_of_its_host() {
        for (host, name) in [
            ("master.locks.abc123.euw1.cache.amazonaws.com", Some("Amazon ElastiCache")),
            ("clustercfg.locks.abc123.MEMORYDB.us-east-1.amazonaws.com.", Some("Amazon MemoryDB")),
            ("locks-team.a.aivencloud.com", Some("Aiven")),
            ("locks-do-user-1-0.db.ondigitalocean.com", Some("DigitalOcean")),
            ("s3.amazonaws.com", None),
            ("cache.amazonaws.com.example", None),
            ("10.0.0.7", None),
            ("", None),
        ] {
            assert_eq!(of(host, Some("Linux 6.1")).map(|service| service.name), name, "{host}");
        }
        assert_eq!(of("10.0.0.7", Some("Amazon ElastiCache")).map(|service| service.name), Some("Amazon ElastiCache"));
    }
}
