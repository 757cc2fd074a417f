//! How it is printed: what is wrong first, then what is set, then the rest.

use serde_json::{Map, Value, json};

use countersign_wire::{kernel::KernelBody, setting::SettingBody};

use super::{examine::Examined, repair::Repaired};
use crate::{
    cli::{
        console::{Console, Format, Tone},
        failure::Failure,
        in_force,
        init::InitPreset,
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
        return console.paragraph("", &format!("settings {}", examined.from.line()));
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
        console.paragraph("  ", &value::visible(&finding.explanation))?;
        let fix = value::visible(&finding.fix);
        // A command is pasted, so it stays on one line.
        if fix.starts_with("countersign ") {
            console.line(&format!("  fix: {fix}"))?;
        } else {
            console.paragraph("  ", &format!("fix: {fix}"))?;
        }
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

/// Below it are the switches of what is read in commands.
const READS: &str = "tools.exec.reads";

/// The switches that `init` turns on with this preset, if they are on and no others.
fn as_a_preset_writes<'a>(settings: &'a [SettingBody]) -> Option<(InitPreset, Vec<&'a SettingBody>)> {
    let switch = |shown: &'a SettingBody| {
        let name = shown.path.strip_prefix(READS)?.strip_prefix('.')?;
        (differs(shown)).then_some((name, shown))
    };
    let switches: Vec<(&str, &SettingBody)> = settings.iter().filter_map(switch).collect();
    let is_on = |shown: &SettingBody| shown.value == Value::Bool(true) && shown.waiting.is_none();
    let is_of = |preset: &&InitPreset| {
        let reads = preset.reads();
        !reads.is_empty()
            && reads.len() == switches.len()
            && switches
                .iter()
                .all(|(name, shown)| is_on(shown) && reads.iter().any(|read| read == name))
    };
    let preset = InitPreset::ALL.iter().find(is_of)?;
    Some((*preset, switches.into_iter().map(|(_, shown)| shown).collect()))
}

/// A file by its name: where those of a state directory lie is known.
fn by_name(source: &str) -> &str {
    match source.rsplit_once('/') {
        Some((folder, name)) if folder.starts_with('/') => name,
        Some(_) | None => source,
    }
}

fn show_settings(console: Console, examined: &Examined, scope: Scope) -> Result<(), Failure> {
    let settings = &examined.settings;
    let is_all = scope == Scope::Everything;
    let mut table = Table::new(&["SETTING", "VALUE", "SET BY", ""]).keeping("SET BY");
    let folded = if is_all {
        None
    } else {
        as_a_preset_writes(settings)
    };
    let is_folded = |shown: &SettingBody| {
        let folded = folded.as_ref();
        folded.is_some_and(|(_, switches)| switches.iter().any(|switch| switch.path == shown.path))
    };
    let wanted = |shown: &&SettingBody| is_all || (differs(shown) && !is_folded(shown));
    for shown in settings.iter().filter(wanted) {
        let source = if is_all {
            shown.source.as_str()
        } else {
            by_name(&shown.source)
        };
        table.row([
            shown.path.as_str(),
            &value::spelled(&shown.value),
            source,
            &in_force::remark(shown),
        ]);
    }
    console.paragraph("", &format!("settings {}", examined.from.line()))?;
    if settings.is_empty() {
        console.note("the settings do not read");
        return Ok(());
    }
    if scope == Scope::Everything {
        return console.table(&table, "the settings do not read");
    }
    let different = settings.iter().filter(|shown| differs(shown)).count();
    if !table.is_empty() {
        console.table(&table, "")?;
    }
    if let Some((preset, switches)) = &folded {
        let (count, preset) = (switches.len(), preset.as_str());
        console.line(&format!(
            "{READS}: {count} switches on, as the preset {preset} writes them"
        ))?;
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
            let text = format!(
                "{}: {}; it needs {}. Without it {}",
                part.part,
                value::visible(missing),
                value::visible(&part.needs),
                value::visible(&part.otherwise)
            );
            console.paragraph("", &text)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn switches_that_a_preset_writes_are_one_row() {
        let setting = |path: &str, value: bool| SettingBody {
            path: path.to_owned(),
            value: json!(value),
            source: "/s/openclaw.json".to_owned(),
            default: json!(false),
            effective: true,
            waiting: None,
            waits_for: None,
        };
        let reads = InitPreset::Cautious.reads();
        let mut settings: Vec<SettingBody> = reads
            .iter()
            .map(|name| setting(&format!("{READS}.{name}"), true))
            .collect();
        settings.push(setting("tools.exec.other", true));
        settings.push(setting("tools.exec.reads.unwritten", false));
        let (preset, switches) = as_a_preset_writes(&settings).expect("folded");
        assert_eq!((preset, switches.len()), (InitPreset::Cautious, reads.len()));
        // One more, or one less, is a person's choice and is shown.
        settings.push(setting("tools.exec.reads.more", true));
        assert!(as_a_preset_writes(&settings).is_none());
        settings.pop();
        settings.remove(0);
        assert!(as_a_preset_writes(&settings).is_none());
        assert_eq!(by_name("/s/countersign/countersign.toml"), "countersign.toml");
        assert_eq!(by_name("default"), "default");
    }

    #[test]
    fn counts_have_the_right_plural_and_no_zeros() {
        let total =
            |errors, warnings, notes| total([(errors, "error"), (warnings, "warning"), (notes, "note")]);
        assert_eq!(total(0, 0, 0), "nothing found");
        assert_eq!(total(1, 0, 0), "1 error");
        assert_eq!(total(2, 1, 3), "2 errors, 1 warning, 3 notes");
    }
}
