//! How a request was answered.

use fencepost::testing::store::{
    content::Content,
    quorum::paxos::{
        acceptor::Seen,
        ballot::Ballot,
        message::{Answer, Request},
        node::{NodeAnswer, NodeRequest},
    },
};

/// What came of a request; the error says what is damaged.
type Answered = Result<NodeAnswer, String>;

/// Asks; a read is made to its end, and its records are put in order. Also how many pieces there were.
pub(crate) fn wholly(request: &NodeRequest, mut say: impl FnMut(&NodeRequest) -> Answered) -> (Answered, usize) {
    let (mut request, mut all, mut pieces) = (request.clone(), Content::default(), 0);
    loop {
        pieces += 1;
        match say(&request) {
            Ok(NodeAnswer::OfPartition(Answer::Piece { position, time, token, records, next })) => {
                all.0.extend(records);
                match (next, &mut request) {
                    (Some(next), NodeRequest::OfPartition { request: Request::Read { from, .. }, .. }) => *from = next,
                    _ => {
                        let records = std::mem::take(&mut all.0).into_iter().collect();
                        let whole = Answer::Piece { position, time, token, records, next: None };
                        return (Ok(NodeAnswer::OfPartition(whole)), pieces);
                    }
                }
            }
            answer => return (answer, pieces),
        }
    }
}

/// How a request was answered, in words.
pub(crate) fn label(
    request: &NodeRequest,
    answer: &Answered,
    (as_member, changed): (bool, bool),
    pieces: usize,
) -> String {
    let first = |debug: String| debug.split([' ', '(', '{']).next().unwrap_or_default().to_owned();
    let asked = match request {
        NodeRequest::Mark(_) => "Mark".to_owned(),
        NodeRequest::Heartbeat { .. } => "Beat".to_owned(),
        NodeRequest::Prefix { .. } => "Prefix".to_owned(),
        NodeRequest::OfPartition { request, .. } => first(format!("{request:?}")),
    };
    let answer = match answer {
        Ok(answer) => answer,
        Err(_) => return format!("{asked}: damage"),
    };
    match answer {
        NodeAnswer::OfPartition(Answer::Piece { .. }) => {
            let from = if as_member { "a member" } else { "a stranger" };
            format!("{asked}: {} of {from}", if pieces > 1 { "pieces" } else { "a piece" })
        }
        NodeAnswer::OfPartition(answer) => {
            let role = if as_member { "member" } else { "stranger" };
            let what = if changed { "changed" } else { "as before" };
            let answer = if let Answer::Classic(state) = answer { format!("{state:?}") } else { format!("{answer:?}") };
            format!("{asked}: {}, {role}, {what}", first(answer))
        }
        NodeAnswer::Heartbeats { .. } if !changed => format!("{asked}: as before"),
        NodeAnswer::Heartbeats { partitions, .. } => {
            let kind = |seen: &Seen| match seen {
                Seen::Broken(_) => "damage",
                Seen::Stranger { written, .. } if *written != Ballot::default() => "a stranger that kept a batch",
                Seen::Votes { .. } => "a voter",
                Seen::Stranger { .. } => "strangers only",
            };
            // The one that is seen least often.
            let shown = ["damage", "a stranger that kept a batch", "a voter", "strangers only"];
            let kinds: Vec<_> = partitions.iter().map(kind).collect();
            format!("{asked}: {}", shown.into_iter().find(|kind| kinds.contains(kind)).unwrap_or("nothing"))
        }
        answer => {
            format!("{asked}: {}, {}", first(format!("{answer:?}")), if changed { "changed" } else { "as before" })
        }
    }
}
