//! A second parser of commands, which knows the whole language: of text that our own reads, it reads the same.

#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "whatever else the other parser knows is no simple command of literal words"
)]

use brush_parser::{
    Parser, ParserOptions,
    ast::{
        AndOr, AssignmentName, AssignmentValue, Command, CommandPrefixOrSuffixItem, CompoundListItem,
        Pipeline, PipelineTimed, SeparatorOperator, SimpleCommand,
    },
    word::{self, TildeExpr, WordPiece, WordPieceWithSource},
};
use countersign_policy::command::{
    parse,
    syntax::{Join, List, Part, Word, WordClass},
};
use serde_json::Value;

use super::commands::Commands;

/// A list in words alone: the operator before a pipeline, and of each segment its assignments and words.
type Shape = Vec<(Option<&'static str>, Vec<Vec<String>>)>;

fn our_shape(list: &List) -> Shape {
    list.items
        .iter()
        .map(|item| {
            let segments = item.pipeline.iter().filter_map(Part::segment).map(|segment| {
                let assignments = segment
                    .assignments
                    .iter()
                    .map(|assignment| format!("{}={}", assignment.name, assignment.value));
                assignments.chain(segment.words.iter().map(our_word)).collect()
            });
            (item.join.map(Join::as_str), segments.collect())
        })
        .collect()
}

/// A home directory is `<home>` in both.
fn our_word(word: &Word) -> String {
    match word.class {
        WordClass::HomeTilde | WordClass::BothTildes => word.value.replacen('~', "<home>", 1),
        WordClass::Literal | WordClass::InnerTilde | WordClass::Found | WordClass::Substituted => {
            word.value.clone()
        }
    }
}

fn their_shape(text: &str) -> Result<Shape, String> {
    let options = ParserOptions::default();
    let program = Parser::new(text.as_bytes(), &options)
        .parse_program()
        .map_err(|error| error.to_string())?;
    let mut shape = Shape::new();
    for CompoundListItem(and_or, separator) in program.complete_commands.iter().flat_map(|list| &list.0) {
        if matches!(separator, SeparatorOperator::Async) {
            return Err("something runs in the background".to_owned());
        }
        let first = if shape.is_empty() { None } else { Some(";") };
        shape.push((first, their_pipeline(&and_or.first, &options)?));
        for more in &and_or.additional {
            let (join, pipeline) = match more {
                AndOr::And(pipeline) => ("&&", pipeline),
                AndOr::Or(pipeline) => ("||", pipeline),
            };
            shape.push((Some(join), their_pipeline(pipeline, &options)?));
        }
    }
    Ok(shape)
}

fn their_pipeline(pipeline: &Pipeline, options: &ParserOptions) -> Result<Vec<Vec<String>>, String> {
    if pipeline.bang {
        return Err("a negation".to_owned());
    }
    let segments: Result<Vec<_>, _> = pipeline
        .seq
        .iter()
        .map(|command| match command {
            Command::Simple(simple) => their_command(simple, options),
            other => Err(format!("no simple command: {other}")),
        })
        .collect();
    let mut segments = segments?;
    // A keyword to them, to us a wrapper.
    let timed: &[&str] = match pipeline.timed {
        None => &[],
        Some(PipelineTimed::Timed(_)) => &["time"],
        Some(PipelineTimed::TimedWithPosixOutput(_)) => &["time", "-p"],
    };
    if let Some(first) = segments.first_mut() {
        first.splice(0..0, timed.iter().map(|word| (*word).to_owned()));
    }
    Ok(segments)
}

fn their_command(command: &SimpleCommand, options: &ParserOptions) -> Result<Vec<String>, String> {
    let before = command.prefix.iter().flat_map(|prefix| &prefix.0);
    let after = command.suffix.iter().flat_map(|suffix| &suffix.0);
    let mut words = Vec::new();
    for item in before {
        match item {
            CommandPrefixOrSuffixItem::AssignmentWord(assignment, _) if !assignment.append => {
                let (AssignmentName::VariableName(name), AssignmentValue::Scalar(value)) =
                    (&assignment.name, &assignment.value)
                else {
                    return Err(format!("an assignment to an array: {assignment}"));
                };
                words.push(format!("{name}={}", their_word(&value.value, options)?));
            }
            other => return Err(format!("before the command: {other}")),
        }
    }
    let name = command.word_or_name.as_ref().ok_or("no command word")?;
    words.push(their_word(&name.value, options)?);
    for item in after {
        match item {
            CommandPrefixOrSuffixItem::Word(word)
            // To most commands this is a word like any other.
            | CommandPrefixOrSuffixItem::AssignmentWord(_, word) => words.push(their_word(&word.value, options)?),
            other => return Err(format!("behind the command: {other}")),
        }
    }
    Ok(words)
}

fn their_word(raw: &str, options: &ParserOptions) -> Result<String, String> {
    let pieces = word::parse(raw, options).map_err(|error| error.to_string())?;
    let mut value = String::new();
    for piece in &pieces {
        push_piece(&mut value, piece, false)?;
    }
    Ok(value)
}

fn push_piece(value: &mut String, piece: &WordPieceWithSource, in_quotes: bool) -> Result<(), String> {
    match &piece.piece {
        WordPiece::Text(text) | WordPiece::SingleQuotedText(text) => value.push_str(text),
        WordPiece::DoubleQuotedSequence(pieces) => {
            for piece in pieces {
                push_piece(value, piece, true)?;
            }
        }
        WordPiece::TildeExpansion(TildeExpr::Home) if !in_quotes => value.push_str("<home>"),
        WordPiece::EscapeSequence(text) => value.push_str(text.strip_prefix('\\').unwrap_or(text)),
        other => return Err(format!("something expands: {other:?}")),
    }
    Ok(())
}

/// Compares both readings of a text that our own parser takes; false when it does not.
#[track_caller]
fn agree(text: &str) -> bool {
    let Ok(list) = parse(text) else { return false };
    let is_inner_tilde = |word: &Word| word.class == WordClass::InnerTilde;
    if list
        .segments()
        .any(|segment| segment.words.iter().any(is_inner_tilde))
    {
        // Shells differ among themselves; such words are covered by entries for any arguments alone.
        return false;
    }
    if text.contains(r"\$'") {
        // The other parser takes an escaped dollar and a quote for `$'`. The shells do not.
        return false;
    }
    assert_eq!(their_shape(text), Ok(our_shape(&list)), "{text:?}");
    true
}

#[test]
fn another_parser_reads_what_ours_accepts_as_the_same_words_and_operators() {
    let mut chance = super::chance();
    let wanted = super::wanted(3_000);
    let mut compared = 0;
    for wild in [0, 12] {
        let mut commands = Commands {
            chance: &mut chance,
            wild,
        };
        for _ in 0..wanted {
            compared += usize::from(agree(&commands.command()));
        }
    }
    assert!(compared > wanted, "most generated text is accepted: {compared}");
}

#[test]
fn another_parser_reads_the_corpus_as_ours_does() {
    let compared = include_str!("../../../../../tests/data/corpus/commands.jsonl")
        .lines()
        .filter(|line| {
            let case: Value = serde_json::from_str(line).expect("a case");
            agree(case["command"].as_str().expect("a command"))
        })
        .count();
    assert!(compared > 300, "{compared}");
}

#[test]
fn the_other_parser_sees_what_is_not_simple() {
    for text in [
        "a > b",
        "a & b",
        "! a",
        "a $(b)",
        "a `b`",
        "(a)",
        "if a; then b; fi",
        "a <<E\nx\nE",
        "x=(1) a",
    ] {
        assert!(their_shape(text).is_err(), "{text:?}: {:?}", their_shape(text));
    }
}
