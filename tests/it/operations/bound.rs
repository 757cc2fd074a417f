//! The table once more, by tokens that are bound to agents: whatever a call is about, it is theirs or it is refused.

use super::*;
use crate::operations::table::{About, Foreign};

/// What a call comes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    /// It is answered as for a token that is bound to nothing.
    Answered,
    Forbidden,
    NotFound,
    /// It is answered, and what is another agent's is not in the answer.
    LeftOut,
}

/// What becomes of a call about `main` with this scope, by a token bound to `main`, or to another agent.
fn fate(about: About, scope: &str, is_own: bool) -> Fate {
    match about {
        About::Caller => Fate::Answered,
        About::Agent(_) if is_own => Fate::Answered,
        About::NoAgent | About::Agent(Foreign::Refused) => Fate::Forbidden,
        About::Agent(Foreign::RefusedOrLeftOut | Foreign::RefusedOrUnknown) if scope == "exec" => {
            Fate::Forbidden
        }
        About::Agent(Foreign::LeftOut | Foreign::RefusedOrLeftOut) => Fate::LeftOut,
        About::Agent(Foreign::Unknown | Foreign::RefusedOrUnknown) => Fate::NotFound,
    }
}

#[tokio::test]
async fn a_bound_token_reaches_what_is_its_agents_and_nothing_else() {
    let server = server().await;
    let contract = server.anonymous().read("/openapi.json").await;
    let asker = holders(&server).await.remove(0).1;
    for scope in SCOPES {
        for (agent, is_own) in [("main", true), ("other", false)] {
            let bound = server.bound_token(&[scope], agent).await;
            for row in TABLE {
                let Access::Scopes(scopes) = row.access else {
                    continue;
                };
                if !scopes.contains(&scope) {
                    continue;
                }
                // A token with only exec sees what it asked for itself.
                let asker = if scope == "exec" && is_own { &bound } else { &asker };
                let things = Things::make(&server, asker, row).await;
                let fate = fate(row.about, scope, is_own);
                let never_ends = row.streams && matches!(fate, Fate::Answered | Fate::LeftOut);
                let answer = answered(&server, &bound, row, &things, never_ends, identity).await;
                let who = format!("{scope} for {agent}");
                let what = format!(
                    "{who} {} {}: {} {}",
                    row.method,
                    row.path,
                    answer.status,
                    answer.text()
                );
                match fate {
                    Fate::Answered => assert_eq!(answer.status, row.answers, "{what}"),
                    Fate::Forbidden => {
                        let problem = refused(&answer, 403, "forbidden", &who, row);
                        assert_eq!(problem["requiredScope"], Value::Null, "{what}");
                    }
                    Fate::NotFound => assert_eq!(answer.status, 404, "{what}"),
                    Fate::LeftOut => {
                        assert_eq!(answer.status, 200, "{what}");
                        for (_, thing) in &things.parameters {
                            assert!(
                                !answer.text().contains(&format!("{thing:?}")),
                                "{thing} in {what}"
                            );
                        }
                    }
                }
                assert_documented(&contract, row, &answer, &who);
            }
        }
    }
}
