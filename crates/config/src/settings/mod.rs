//! Settings: `countersign.toml` for the process, `openclaw.json` for the policy shared with the product, environment
//! variables and flags, each value with its origin (`docs/spec/settings.md`).
//!
//! Owns reading, checking and re-reading those files, and putting a changed `openclaw.json` in its place
//! ([`ConfigFile`], with a text that [`config_edit`] returned); it never acts on a value. Its invariant: a file that
//! does not read completely changes nothing. At start that ends the start; later the last good settings stay. Entry
//! points are [`StateDir::resolve`] and [`SettingsStore::load`].

mod env;
mod home;
mod state_dir;

mod problem;
mod source_file;
mod store;
mod values;

mod kinds;
mod kinds_net;
mod kinds_policy;
mod kinds_sandbox;
mod words;

mod server;
mod server_sources;
mod start_check;
mod start_options;

mod exec_settings;
mod guards;
mod policy_check;
mod policy_config;
mod policy_keys;
mod policy_tree;
mod sandbox_settings;
mod tightening;
mod tool_policy;
mod widening;

mod config_file;
mod config_view;
mod edit;
mod key_path;

pub use config_file::{ConfigFile, ConfigFileError, StagedConfig, content_hash};
pub use config_view::{ConfigPart, config_part, config_text, config_values};
pub use countersign_domain::ElevatedLevel;
pub use edit::{EditError, Edited, KeyEdit, config_edit, preset_edits};
pub use env::{Environment, MapEnvironment, ProcessEnvironment};
pub use exec_settings::{ApplyPatchSettings, ExecSettings};
pub use key_path::{InvalidKeyPath, KeyPath, Step};
pub use kinds_net::{DatabaseUrl, InvalidText, IpRange, WebUrl};
pub use kinds_policy::SafeBinProfile;
pub use kinds_sandbox::{BindMount, Limit};
pub(crate) use policy_config::SenderLists;
#[cfg(test)]
pub(crate) use policy_config::policy_of;
pub use policy_config::{CommandSettings, ElevatedSettings, PolicyConfig};
pub use policy_tree::ConfigValue;
pub use problem::{Problem, SettingsFinding, SettingsProblem, Source};
pub use sandbox_settings::{DockerSettings, SandboxSettings};
pub use server::{
    Approvals, Auth, Bridge, Database, Events, Exec, Http, Ipc, Limits, Output, PathPolicy, Sandbox, Server,
    Shutdown, SkillBin, Telemetry, Tls,
};
pub use server_sources::is_server_setting;
pub(crate) use source_file::Stamp;
pub use start_check::is_open_address;
pub use start_options::StartOptions;
pub use state_dir::{StateDir, StateDirError};
pub use store::{PolicyText, Refresh, RejectedFile, Settings, SettingsStore, named_account, wanted_account};
pub use tool_policy::{Tool, ToolPolicy};
pub use values::{Effect, EffectiveValue, WaitingValue, WaitsFor};
pub(crate) use words::ExecMode;
pub use words::{
    BackgroundRuns, Durability, IpcRole, IsolationChoice, LogFormat, PathCase, SandboxBackend, SandboxMode,
    SandboxScope, Widening, WorkspaceAccess,
};

#[cfg(test)]
mod tests;
