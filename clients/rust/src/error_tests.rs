use super::*;
use tonic_types::ErrorDetails;

#[test]
fn reads_the_details() {
    let mut details = ErrorDetails::with_retry_info(Some(Duration::from_millis(250)));
    details.set_error_info("OVERTAKEN", "fencepost", std::collections::HashMap::new());
    details.add_bad_request_violation("ttl", "must be at least 1s");
    let error = CallError::new(Status::with_error_details(tonic::Code::Aborted, "no", details));
    assert_eq!(error.reason().as_deref(), Some("OVERTAKEN"));
    assert_eq!(error.retry_delay(), Some(Duration::from_millis(250)));
    assert_eq!(error.field_violations()[0].field, "ttl");
    assert!(!error.is_outcome_unknown() && !error.is_transient());
}

#[test]
fn an_operation_fails_like_its_unary_call() {
    let mut details = ErrorDetails::with_retry_info(Some(Duration::from_millis(250)));
    details.set_error_info("SESSION_FULL", "fencepost", std::collections::HashMap::new());
    let status = Status::with_error_details(tonic::Code::ResourceExhausted, "too much", details);
    let error = v1::OperationError::decode(status.details()).unwrap();
    assert_eq!((error.code, error.message.as_str()), (8, "too much"));
    let error = CallError::from_operation(&error);
    assert!(error.is_session_full() && !error.is_outcome_unknown());
    assert_eq!((error.code(), error.message()), (Code::ResourceExhausted, "too much"));
    assert_eq!(error.retry_delay(), Some(Duration::from_millis(250)));
}

#[test]
fn a_server_that_did_nothing_leaves_no_unknown_outcome() {
    let with_reason = |reason: &str| {
        let mut details = ErrorDetails::new();
        details.set_error_info(reason, "fencepost", std::collections::HashMap::new());
        CallError::new(Status::with_error_details(tonic::Code::Unavailable, "no", details))
    };
    for reason in NOTHING_DONE {
        assert!(crate::facts::REASONS.contains(&(reason, "UNAVAILABLE")), "{reason}");
        let error = with_reason(reason);
        assert!(error.is_transient() && error.did_nothing(), "{reason}");
        assert!(!error.is_outcome_unknown() && !error.is_unreachable(), "{reason}");
        // An earlier transmission may have been applied.
        assert!(error.after_sending(true).is_outcome_unknown(), "{reason}");
    }
    assert!(with_reason("OUTCOME_UNKNOWN").is_outcome_unknown());
}

#[test]
fn unknown_outcomes_are_recognised() {
    for status in [Status::unavailable(""), Status::cancelled(""), Status::deadline_exceeded("")] {
        assert!(CallError::new(status).is_outcome_unknown());
    }
    for status in [Status::invalid_argument(""), Status::unknown("sent by a server"), Status::internal("")] {
        assert!(!CallError::new(status).is_outcome_unknown());
    }
    let broken = Status::from_error("connection reset".into());
    assert!(CallError::new(broken).is_outcome_unknown());
    let refused = Status::from_error(Box::new(tonic::ConnectError("refused".into())));
    let refused = CallError::new(refused);
    assert!(refused.is_transient() && refused.is_unreachable() && !refused.is_outcome_unknown());
    assert!(refused.after_sending(true).is_outcome_unknown());
}
