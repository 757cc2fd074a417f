//! How it is printed: what is wrong first, then what is set, then the rest.

use serde_json::{Map, Value, json};

use countersign_wire::{kernel::KernelBody, setting::SettingBody};

use super::{examine::Examined, repair::Repaired};
use crate::{
    cli::{
        console::{Console, Format, Tone},
        failure::Failure,
        in_force,
        table::Table,
        value,
    },
    doctor::{Finding, Severity},
};

/// How much is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scope {
    /// What was found.
    Findings,
    /// Also the settings that are not at their defaults, and what the kernel does not keep.
    Differences,
    /// Also all other settings, and all parts of the kernel.
    Everything,
}

/// Prints what was found.
pub(super) fn report(console: Console, examined: &Examined, scope: Scope) -> Result<(), Failure> {
    if console.format() == Format::Json {
        return console.document(&document(examined, scope));
    }
    show_repaired(console, &examined.repaired)?;
    show_findings(console, examined)?;
    if scope == Scope::Findings {
        return console.line(&format!("settings {}", examined.from.line()));
    }
    console.line("")?;
    show_settings(console, examined, scope)?;
    console.line("")?;
    show_kernel(console, &examined.kernel, scope)
}

fn document(examined: &Examined, scope: Scope) -> Value {
    let findings: Vec<Value> = examined
        .findings
        .iter()
        .map(
            |Finding {
                 id,
                 severity,
                 key,
                 explanation,
                 fix,
                 repair,
             }| {
                json!({"id": id, "severity": severity, "key": key, "explanation": explanation, "fix": fix,
                "fixable": repair.is_some()})
            },
        )
        .collect();
    let done = examined.repaired.iter().filter(|repaired| repaired.done);
    let done: Vec<&str> = done.map(|repaired| repaired.id).collect();
    let repairs: Vec<Value> = examined
        .repaired
        .iter()
        .map(
            |Repaired {
                 id,
                 key,
                 changes,
                 done,
             }| json!({"id": id, "key": key, "changes": changes, "done": done}),
        )
        .collect();
    let mut document = json!({
        "findings": findings, "repaired": done, "repairs": repairs, "from": examined.from.as_str(),
    });
    if let Some(document) = document.as_object_mut().filter(|_| scope != Scope::Findings) {
        document.insert("kernel".to_owned(), json!(examined.kernel));
        document.insert("settings".to_owned(), settings_document(&examined.settings));
    }
    document
}

/// What was fixed, or would be, each with its difference.
fn show_repaired(console: Console, repaired: &[Repaired]) -> Result<(), Failure> {
    for Repaired {
        id,
        key,
        changes,
        done,
    } in repaired
    {
        let word = if *done { "fixed" } else { "would fix" };
        console.line(&format!("{word} {id}: {}", value::visible(key)))?;
        for change in changes {
            let tone = match change.as_bytes().first() {
                Some(b'+') => Tone::Good,
                Some(b'-') => Tone::Bad,
                Some(_) | None => Tone::Dim,
            };
            console.line(&format!("  {}", console.paint(tone, &value::visible(change))))?;
        }
    }
    if repaired.is_empty() {
        return Ok(());
    }
    console.line("")
}

fn show_findings(console: Console, examined: &Examined) -> Result<(), Failure> {
    for finding in &examined.findings {
        let tone = match finding.severity {
            Severity::Error => Tone::Bad,
            Severity::Warning => Tone::Caution,
            Severity::Info => Tone::Dim,
        };
        let severity = console.paint(tone, finding.severity.as_str());
        console.line(&format!(
            "{severity}[{}]: {}",
            finding.id,
            value::visible(&finding.key)
        ))?;
        console.line(&format!("  {}", value::visible(&finding.explanation)))?;
        console.line(&format!("  fix: {}", value::visible(&finding.fix)))?;
    }
    console.line(&total([
        (examined.count(Severity::Error), "error"),
        (examined.count(Severity::Warning), "warning"),
        (examined.count(Severity::Info), "note"),
    ]))
}

/// How many there are of each, in words.
fn total(counts: [(usize, &str); 3]) -> String {
    let parts: Vec<String> = counts
        .into_iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, word)| value::counted(count, word))
        .collect();
    if parts.is_empty() {
        "nothing found".to_owned()
    } else {
        parts.join(", ")
    }
}

fn settings_document(settings: &[SettingBody]) -> Value {
    let document = |shown: &SettingBody| {
        let mut document = Map::from_iter([("key".to_owned(), json!(shown.path))]);
        if let Value::Object(mut members) = json!(shown) {
            members.shift_remove("path");
            document.extend(members);
        }
        Value::Object(document)
    };
    settings.iter().map(document).collect()
}

/// Whether a setting says something: it has another value than nobody's, or waits.
fn differs(shown: &SettingBody) -> bool {
    shown.value != shown.default || shown.waiting.is_some()
}

fn show_settings(console: Console, examined: &Examined, scope: Scope) -> Result<(), Failure> {
    let settings = &examined.settings;
    let mut table = Table::new(&["SETTING", "VALUE", "SET BY", ""]);
    let wanted = |shown: &&SettingBody| scope == Scope::Everything || differs(shown);
    for shown in settings.iter().filter(wanted) {
        table.row([
            shown.path.as_str(),
            &value::spelled(&shown.value),
            &shown.source,
            &in_force::remark(shown),
        ]);
    }
    console.line(&format!("settings {}", examined.from.line()))?;
    if settings.is_empty() {
        console.note("the settings do not read");
        return Ok(());
    }
    if scope == Scope::Everything {
        return console.table(&table, "the settings do not read");
    }
    let different = settings.iter().filter(|shown| differs(shown)).count();
    if different > 0 {
        console.table(&table, "")?;
    }
    console.line(&format!(
        "{} of {} differ from the default; --all shows the rest",
        different,
        value::counted(settings.len(), "setting")
    ))
}

fn show_kernel(console: Console, kernel: &KernelBody, scope: Scope) -> Result<(), Failure> {
    let version = match kernel.landlock {
        0 => "no Landlock".to_owned(),
        version => format!("Landlock {version}"),
    };
    let kept = kernel.parts.iter().filter(|part| part.kept).count();
    if scope != Scope::Everything {
        console.line(&format!(
            "the kernel, which has {version}, keeps {kept} of {}",
            value::counted(kernel.parts.len(), "part")
        ))?;
        return show_missing(console, kernel);
    }
    console.line(&format!("kept by the kernel, which has {version}"))?;
    let mut table = Table::new(&["PART", "KEPT", "AT THE LEVELS"]);
    for part in &kernel.parts {
        let levels: Vec<String> = part.levels.iter().map(ToString::to_string).collect();
        let kept = if part.kept { "yes" } else { "no" };
        table.row([part.part.to_string().as_str(), kept, &levels.join(", ")]);
    }
    console.table(&table, "the server did not say")?;
    show_missing(console, kernel)
}

/// What the kernel does not keep, and what happens then.
fn show_missing(console: Console, kernel: &KernelBody) -> Result<(), Failure> {
    for part in &kernel.parts {
        if let Some(missing) = &part.missing {
            console.line(&format!(
                "{}: {}; it needs {}. Without it {}",
                part.part,
                value::visible(missing),
                value::visible(&part.needs),
                value::visible(&part.otherwise)
            ))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_have_the_right_plural_and_no_zeros() {
        let total =
            |errors, warnings, notes| total([(errors, "error"), (warnings, "warning"), (notes, "note")]);
        assert_eq!(total(0, 0, 0), "nothing found");
        assert_eq!(total(1, 0, 0), "1 error");
        assert_eq!(total(2, 1, 3), "2 errors, 1 warning, 3 notes");
    }
}
