//! How careful to be: the presets of `docs/spec/exec-tool.md#11-presets`, and the sandbox alone.

use serde_json::{Value, json};

use countersign_domain::{Ask, HostChoice, Security};
use countersign_policy::{
    preset::{Preset, PresetValues},
    starter::StarterSet,
};

/// What `init` can set up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum InitPreset {
    /// The allowlist runs; a person is asked about everything else
    Cautious,
    /// Nothing runs
    DenyAll,
    /// Everything runs, nobody is asked
    Yolo,
    /// Commands run in the sandbox alone, never on this machine's own system
    SandboxOnly,
}

impl InitPreset {
    /// In the order of the question, the recommended one first.
    pub(crate) const ALL: [Self; 4] = [Self::Cautious, Self::DenyAll, Self::SandboxOnly, Self::Yolo];

    /// Its word on the command line.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Cautious => "cautious",
            Self::DenyAll => "deny-all",
            Self::Yolo => "yolo",
            Self::SandboxOnly => "sandbox-only",
        }
    }

    /// What it means, for the question.
    pub(crate) const fn meaning(self) -> &'static str {
        match self {
            Self::Cautious => "the allowlist runs; a person is asked about everything else",
            Self::DenyAll => "nothing runs",
            Self::Yolo => "everything runs on this machine, nobody is asked",
            Self::SandboxOnly => "commands run in the sandbox alone, nobody is asked",
        }
    }

    const fn values(self) -> PresetValues {
        match self {
            Self::Cautious => Preset::Cautious.values(),
            Self::DenyAll => Preset::DenyAll.values(),
            Self::Yolo => Preset::Yolo.values(),
            Self::SandboxOnly => PresetValues {
                host: HostChoice::Sandbox,
                security: Security::Deny,
                ask: Ask::Off,
                ask_fallback: Security::Deny,
            },
        }
    }

    /// What `openclaw.json` must say.
    pub(crate) fn config(self) -> Value {
        let PresetValues {
            host,
            security,
            ask,
            ask_fallback: _,
        } = self.values();
        let mut config = json!({ "tools": { "exec": { "host": host, "security": security, "ask": ask } } });
        if matches!(self, Self::Cautious | Self::SandboxOnly)
            && let Some(exec) = config.pointer_mut("/tools/exec").and_then(Value::as_object_mut)
        {
            // Fewer questions about what is harmless; a file that nobody wrote keeps to the plain grammar.
            exec.insert(
                "reads".to_owned(),
                json!({
                    "nullRedirections": true,
                    "hereDocuments": true,
                    "fileRedirections": true,
                    "filePatterns": true,
                    "temporaryFiles": true,
                    "foundFiles": true,
                    "documentOperands": true,
                    "variables": true,
                    "substitutions": true,
                    "braces": true,
                    "compoundCommands": true,
                    "loops": true,
                    "laterValues": true,
                    "backgroundCommands": true,
                    "projectRunners": true,
                }),
            );
        }
        config
    }

    /// The switches below `tools.exec.reads` that it turns on.
    pub(crate) fn reads(self) -> Vec<String> {
        let config = self.config();
        let reads = config.pointer("/tools/exec/reads").and_then(Value::as_object);
        reads
            .into_iter()
            .flat_map(serde_json::Map::keys)
            .cloned()
            .collect()
    }

    /// What the approvals document must say.
    pub(crate) fn document(self) -> Value {
        let PresetValues {
            host: _,
            security,
            ask,
            ask_fallback,
        } = self.values();
        json!({
            "version": 1,
            "defaults": { "security": security, "ask": ask, "askFallback": ask_fallback },
            "agents": {},
        })
    }

    /// The same with the entries of starter sets for the agent `main`.
    pub(super) fn document_with(self, sets: &[StarterSet]) -> Value {
        let mut document = self.document();
        // Each set once, in the order of the table.
        let wanted = StarterSet::ALL.iter().filter(|set| sets.contains(set));
        let entries: Vec<Value> = wanted
            .flat_map(|set| set.entries().into_iter().map(move |entry| (set, entry)))
            .map(|(set, entry)| {
                let mut item = json!({ "pattern": entry.pattern });
                if let Some(members) = item.as_object_mut() {
                    members.extend(
                        entry
                            .arg_pattern
                            .map(|text| ("argPattern".to_owned(), json!(text))),
                    );
                    members.insert("note".to_owned(), json!(format!("{set}: {}", entry.allows)));
                    members.extend(entry.confine.map(|said| ("confine".to_owned(), said)));
                }
                item
            })
            .collect();
        if !entries.is_empty()
            && let Some(agents) = document.pointer_mut("/agents")
        {
            *agents = json!({ "main": { "allowlist": entries } });
        }
        document
    }

    /// What `countersign.toml` must say. With `cautious` the first question waits for a person instead of
    /// meeting the fallback because no approver happens to be connected.
    pub(crate) fn server(self) -> Value {
        match self {
            Self::Cautious => json!({ "approvals": { "always_reachable": true } }),
            Self::DenyAll | Self::Yolo | Self::SandboxOnly => json!({}),
        }
    }
}
