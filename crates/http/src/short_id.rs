//! Ids as people type them: a unique beginning or end of 8 characters or more stands for the id, of 6 for that of a node.

use std::fmt::Display;

use countersign_domain::{ApprovalId, EntryId, IdPart, Principal, RunId, SignInId, TokenId};
use countersign_ledger::Page;

use countersign_wire::problem::NodeCandidate;

use crate::{
    extract::NodeName,
    problem::{Code, Problem},
    state::AppState,
};

/// So many candidates are named; more help nobody.
pub(crate) const MOST_NAMED: usize = 10;
/// So many are counted.
const MOST_COUNTED: usize = 100;
const TOKENS_AT_ONCE: u32 = 500;

/// The run that the path names, among those that the caller may see.
pub(crate) async fn run(state: &AppState, caller: &Principal, id: RunId) -> Result<RunId, Problem> {
    match IdPart::of(id.as_str()) {
        // Other programs make ids, too, and theirs may be short.
        None if is_too_short(id.as_str()) => match state.engine().records().run(caller, &id).await? {
            Some(_) => Ok(id),
            None => Err(Problem::unknown_run().because(TOO_SHORT)),
        },
        None => Ok(id),
        Some(part) => one(state.engine().records().runs_with_part(caller, part).await?, id),
    }
}

/// The approval that the path names, among those that the caller may see.
pub(crate) async fn approval(
    state: &AppState,
    caller: &Principal,
    id: ApprovalId,
) -> Result<ApprovalId, Problem> {
    match IdPart::of(id.as_str()) {
        None if is_too_short(id.as_str()) => match state.engine().records().approval(caller, &id).await? {
            Some(_) => Ok(id),
            None => Err(Problem::new(Code::ApprovalNotFound, TOO_SHORT)),
        },
        None => Ok(id),
        Some(part) => one(
            state.engine().records().approvals_with_part(caller, part).await?,
            id,
        ),
    }
}

/// The token that the path names.
pub(crate) async fn token(state: &AppState, id: TokenId) -> Result<TokenId, Problem> {
    let Some(part) = IdPart::of(id.as_str()) else {
        return Ok(id);
    };
    let mut found = Vec::new();
    let mut page = Page::first(TOKENS_AT_ONCE);
    loop {
        let listing = state.tokens().list(page).await?;
        let ids = listing.items.into_iter().map(|token| token.id);
        found.extend(ids.filter(|known| part.is_of(known.as_str())));
        match listing.next {
            Some(next) if found.len() <= MOST_COUNTED => page.cursor = Some(next),
            Some(_) | None => return one(found, id),
        }
    }
}

/// The sign-in that the path names.
pub(crate) async fn sign_in(state: &AppState, id: SignInId) -> Result<SignInId, Problem> {
    let Some(part) = IdPart::of(id.as_str()) else {
        return Ok(id);
    };
    let signed_in = state.tokens().sign_ins().await?;
    let ids = signed_in.into_iter().map(|(sign_in, _)| sign_in.id);
    one(ids.filter(|known| part.is_of(known.as_str())).collect(), id)
}

/// The pairing request that the path names.
pub(crate) async fn pairing(state: &AppState, id: String) -> Result<String, Problem> {
    let Some(part) = IdPart::of(&id) else {
        return Ok(id);
    };
    let waiting = state.bridge().pairings().await?;
    let ids = waiting.into_iter().map(|request| request.request_id);
    one(ids.filter(|known| part.is_of(known)).collect(), id)
}

/// The entry or deny rule that the path names, among these.
pub(crate) fn entry<'a>(ids: impl Iterator<Item = &'a EntryId>, id: EntryId) -> Result<EntryId, Problem> {
    let Some(part) = IdPart::of(id.as_str()) else {
        return Ok(id);
    };
    let fitting: Vec<&EntryId> = ids.filter(|known| part.is_of(known.as_str())).collect();
    // Ids of other programs may be as short as a part.
    if fitting.contains(&&id) {
        return Ok(id);
    }
    one(fitting.into_iter().cloned().collect(), id)
}

/// The node that the path names. A node's id is no secret and has no order, so fewer characters say enough.
pub(crate) async fn node(state: &AppState, name: NodeName) -> Result<String, Problem> {
    if name.is_whole() {
        return Ok(name.0);
    }
    let NodeName(part) = name;
    let nodes = state.bridge().nodes().await?;
    let mut fitting: Vec<NodeCandidate> = nodes
        .into_iter()
        .filter(|node| node.node_id.starts_with(&part) || node.node_id.ends_with(&part))
        .map(|node| NodeCandidate {
            node_id: node.node_id,
            display_name: node.display_name,
        })
        .collect();
    match (fitting.pop(), fitting.is_empty()) {
        (None, _) => Err(Problem::unknown_node()),
        (Some(only), true) => Ok(only.node_id),
        (Some(last), false) => {
            fitting.push(last);
            let more = beyond(&mut fitting);
            let detail = format!("{part} begins or ends several ids; give more of it");
            Err(Problem::new(Code::NodeAmbiguous, detail).with(|body| {
                body.candidates = Some(fitting);
                body.more = more;
            }))
        }
    }
}

/// The only candidate, or the one that is named in full. What has none is looked up as it stands, and not found.
pub(crate) fn one<Id: PartialEq + Display>(mut candidates: Vec<Id>, named: Id) -> Result<Id, Problem> {
    if candidates.contains(&named) {
        return Ok(named);
    }
    match (candidates.pop(), candidates.is_empty()) {
        (None, _) => Ok(named),
        (Some(only), true) => Ok(only),
        (Some(last), false) => {
            candidates.push(last);
            let more = beyond(&mut candidates);
            let ids = candidates.iter().map(ToString::to_string).collect();
            let detail = format!("{named} begins or ends several ids; give more of it");
            Err(Problem::new(Code::IdAmbiguous, detail).with(|body| {
                body.ids = Some(ids);
                body.more = more;
            }))
        }
    }
}

/// Takes out those that are too many to name, and says how many they are.
fn beyond<T>(candidates: &mut Vec<T>) -> Option<u64> {
    let more = candidates.len().saturating_sub(MOST_NAMED);
    candidates.truncate(MOST_NAMED);
    u64::try_from(more).ok().filter(|more| *more > 0)
}

/// What is as short is no part of an id of ours.
fn is_too_short(id: &str) -> bool {
    id.len() < SHORTEST_PART
}

/// Fewer characters could mean too many.
const SHORTEST_PART: usize = 8;
const TOO_SHORT: &str = "the id is too short: give 8 characters of its beginning or end, or more";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_of_several_ids_is_refused() {
        let id = |text: &str| RunId::parse(text).unwrap();
        let named = || id("aaaaaaaa");
        assert_eq!(one(vec![], named()), Ok(named()));
        assert_eq!(one(vec![id("aaaaaaaa-1")], named()), Ok(id("aaaaaaaa-1")));
        let several = vec![id("aaaaaaaa-1"), id("aaaaaaaa-2")];
        let problem = one(several, named()).unwrap_err();
        assert_eq!(problem.code(), Code::IdAmbiguous);
        assert_eq!(
            problem.to_json("/", "q")["ids"],
            serde_json::json!(["aaaaaaaa-1", "aaaaaaaa-2"])
        );
        assert_eq!(one(vec![id("1-aaaaaaaa"), named()], named()), Ok(named()));
    }
}
