//! What the kernel keeps of a command.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use countersign_domain::{Confinement, NotKept, Observed, ProgramLimits, Startable, WritePlace};

/// What the kernel keeps of each program that a command starts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Confinement)]
pub struct ConfinementBody {
    /// In the order in which they are started; one without limits is among them.
    pub programs: Vec<ProgramLimitsBody>,
    /// Why the kernel does not keep more: `gains-privileges` or `unsupported`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_kept: Option<String>,
}

/// What one program may do, with everything that it starts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = ProgramLimits)]
pub struct ProgramLimitsBody {
    pub program: String,
    /// Real paths of the programs that it may start, and `DIRECTORY/**` for everything below one. Absent for any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub starts: Option<Vec<String>>,
    /// `workspace`, `tmp` and paths. Absent for anywhere.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub writes: Option<Vec<String>>,
    /// TCP ports. Absent for any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connects: Option<Vec<u16>>,
}

impl ConfinementBody {
    /// `None` where nothing is kept and nothing would be.
    pub fn of(confinement: &Confinement) -> Option<Self> {
        if confinement.is_open() {
            return None;
        }
        Some(Self {
            programs: confinement.programs.iter().map(ProgramLimitsBody::of).collect(),
            not_kept: confinement.not_kept.map(|why| {
                let word = match why {
                    NotKept::GainsPrivileges => "gains-privileges",
                    NotKept::Unsupported => "unsupported",
                };
                word.to_owned()
            }),
        })
    }
}

impl ProgramLimitsBody {
    fn of(limits: &ProgramLimits) -> Self {
        let startable = |one: &Startable| match one {
            Startable::File(file) => file.path.clone(),
            Startable::Below(directory) => format!("{directory}/**"),
        };
        let place = |one: &WritePlace| match one {
            WritePlace::Workspace => "workspace".to_owned(),
            WritePlace::Tmp => "tmp".to_owned(),
            WritePlace::Path(path) => path.clone(),
        };
        Self {
            program: limits.program.clone(),
            starts: limits
                .starts
                .as_ref()
                .map(|all| all.iter().map(startable).collect()),
            writes: limits.writes.as_ref().map(|all| all.iter().map(place).collect()),
            connects: limits.connects.as_ref().map(|all| all.iter().copied().collect()),
        }
    }
}
/// What was seen of the programs that a run started. Real paths, each once, at most 64.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = Observed)]
pub struct ObservedBody {
    /// What the kernel lets the program start that tried to.
    pub started: Vec<String>,
    /// What it does not.
    pub refused: Vec<String>,
    /// Whether there were more than are named.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    #[schema(required = false)]
    pub more: bool,
    /// The same in one line. Absent where nothing was seen.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<String>,
}

impl From<Observed> for ObservedBody {
    fn from(observed: Observed) -> Self {
        let line = observed.to_line();
        let Observed {
            started,
            refused,
            more,
        } = observed;
        Self {
            started,
            refused,
            more,
            line,
        }
    }
}
