//! The validity of the server's certificate, and the log of it.

use std::cmp::min;
use x509_parser::{certificate::Validity, time::ASN1Time};

/// The log warns so long before a certificate expires, in seconds: 7 days, as the alert for it does.
const WARN_BEFORE: i64 = 7 * 24 * 60 * 60;
/// A certificate that lives for less than 35 days is renewed later: the log warns in the last fifth of its life.
const WARN_PART: i64 = 5;

/// When a chain of certificates is to be renewed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Expiry {
    /// When the first of them expires.
    pub(super) at: ASN1Time,
    /// From when the log warns, in Unix time.
    warn_at: i64,
}

/// What the log has to say of a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Due {
    Nothing,
    Warning,
    Expired,
}

impl Expiry {
    pub(super) fn of(validity: &Validity) -> Self {
        let (from, to) = (validity.not_before.timestamp(), validity.not_after.timestamp());
        let life = to.saturating_sub(from);
        Self { at: validity.not_after, warn_at: to.saturating_sub(min(WARN_BEFORE, life / WARN_PART)) }
    }

    /// Of two certificates of a chain.
    pub(super) fn first(self, other: Self) -> Self {
        Self { at: min(self.at, other.at), warn_at: min(self.warn_at, other.warn_at) }
    }

    fn due(self, now: i64) -> Due {
        if now > self.at.timestamp() {
            Due::Expired
        } else if now >= self.warn_at {
            Due::Warning
        } else {
            Due::Nothing
        }
    }
}

/// Tells once that a certificate expires soon, and once that it has expired.
#[derive(Debug)]
pub(super) struct Watch {
    expiry: Expiry,
    told: Due,
}

impl Watch {
    pub(super) fn new(expiry: Expiry) -> Self {
        Self { expiry, told: Due::Nothing }
    }

    /// To be called from time to time.
    pub(super) fn look(&mut self) {
        let due = self.expiry.due(ASN1Time::now().timestamp());
        if due <= self.told {
            return;
        }
        self.told = due;
        let certificate_expires = self.expiry.at;
        match due {
            Due::Nothing => {}
            Due::Warning => tracing::warn!(
                %certificate_expires,
                "the certificate of the server expires soon: put a new one and its key into the files of tls_cert and \
                 tls_key; no restart is needed"
            ),
            Due::Expired => tracing::error!(
                %certificate_expires,
                "the certificate of the server has expired, so clients refuse new connections: put a new one and its \
                 key into the files of tls_cert and tls_key; no restart is needed"
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: i64 = 24 * 60 * 60;
    /// 2001-09-09, in Unix time.
    const START: i64 = 1_000_000_000;

    /// A certificate of so many days.
    fn days(days: i64) -> Expiry {
        let at = |time| ASN1Time::from_timestamp(time).unwrap();
        Expiry::of(&Validity { not_before: at(START), not_after: at(START + days * DAY) })
    }

    #[test]
    fn the_warning_comes_seven_days_before_or_in_the_last_fifth_of_a_short_life() {
        for (life, warning) in [(90, 83), (35, 28), (30, 24), (5, 4)] {
            let (expiry, end) = (days(life), START + life * DAY);
            let warn_at = START + warning * DAY;
            assert_eq!((expiry.due(warn_at - 1), expiry.due(warn_at)), (Due::Nothing, Due::Warning), "{life}");
            assert_eq!((expiry.due(end), expiry.due(end + 1)), (Due::Warning, Due::Expired), "{life}");
        }
    }

    #[test]
    fn the_first_certificate_of_a_chain_counts() {
        let chain = days(400).first(days(30)).first(days(90));
        assert_eq!((chain.at, chain.warn_at), (days(30).at, days(30).warn_at));
    }
}
