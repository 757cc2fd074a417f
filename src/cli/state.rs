//! States as tables show them: in a word that leaves room for the command, and in a colour.

use super::tone::Tone;

/// The state of a run, in a short word. `--wide` and `--json` have the one of the contract.
pub(crate) fn of_run(status: &str) -> &str {
    match status {
        "approval-pending" => "waiting",
        other => other,
    }
}

/// What a state means, whatever is in it: a run, a question, a process, an entry, a node or an outcome. Words behind it say more.
pub(crate) fn tone(state: &str) -> Option<Tone> {
    let word = state.split([' ', ',']).next().unwrap_or_default();
    match word {
        "completed" | "allowed" | "connected" | "ok" | "active" => Some(Tone::Good),
        "waiting" | "approval-pending" | "pending" | "queued" | "waits" => Some(Tone::Caution),
        "denied" | "failed" | "lost" | "inert" => Some(Tone::Bad),
        "cancelled" | "expired" | "used-up" | "offline" => Some(Tone::Dim),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_has_the_colour_of_what_it_means() {
        assert_eq!(tone("denied"), Some(Tone::Bad));
        assert_eq!(tone("pending, 1 of 2"), Some(Tone::Caution));
        assert_eq!(tone(of_run("approval-pending")), tone("approval-pending"));
        // What runs is nothing to look at, and what a newer server says has no colour.
        assert_eq!((tone("running"), tone("postponed"), tone("")), (None, None, None));
    }

    #[test]
    fn a_short_word_takes_no_more_room_than_the_others() {
        assert_eq!(of_run("approval-pending"), "waiting");
        assert_eq!(of_run("completed"), "completed");
    }
}
