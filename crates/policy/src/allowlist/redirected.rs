//! Files that the redirections of a segment name: those of the workspace (G13) and new ones of the temporary directory (G15)
//! become a part of its step.

use countersign_domain::{FileRedirection, FileUse, PathBelow, PinnedDirectory, Redirection};

use super::{evaluation::Evaluation, segment::Reading, work::Work};
use crate::command::{
    Rule, paths,
    syntax::{ReadRedirection, Word},
};

/// Why a file is not opened without a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Unopened {
    /// The rule that says so.
    pub(super) rule: Rule,
    pub(super) detail: &'static str,
}

impl<'a> Evaluation<'a> {
    /// Puts the redirections of a segment into its step.
    ///
    /// # Errors
    /// Why one of them is not opened without a question.
    pub(super) fn redirect(&mut self, work: &mut Work<'_>) -> Result<(), Unopened> {
        let mut redirections = Vec::with_capacity(work.segment.redirections.len());
        for redirection in &work.segment.redirections {
            redirections.push(match redirection {
                ReadRedirection::Known(redirection) => redirection.clone(),
                ReadRedirection::File { used_as, name } => self.file(*used_as, name, work)?,
            });
        }
        work.redirections = redirections;
        Ok(())
    }

    fn file(&mut self, used_as: FileUse, name: &Word, work: &Work<'_>) -> Result<Redirection, Unopened> {
        let workspace = |detail| Unopened {
            rule: Rule::G13,
            detail,
        };
        if work.context.depth > 0 {
            return Err(workspace("a shell inside of the command would open the file"));
        }
        let named = if name.class.is_below_home() {
            paths::expand_home(&name.value, self.lookup.home())
        } else {
            name.value.clone()
        };
        // Behind a link it is not what it reads.
        if named.split('/').any(|part| part == "..") {
            return Err(workspace("the name of the file goes up"));
        }
        if named.ends_with('/') || named.ends_with("/.") {
            return Err(workspace("the name is that of a directory"));
        }
        let base = if named.starts_with('/') {
            "/"
        } else {
            let known = work.context.directory.known();
            known.ok_or_else(|| workspace("the directory is not certain after this cd"))?
        };
        let whole = paths::join_normalised(base, &named);
        if let Some((directory, path)) = self.temporary(&whole) {
            let temporary = |detail| Unopened {
                rule: Rule::G15,
                detail,
            };
            self.temporary_file(used_as, &whole, directory, work)
                .map_err(temporary)?;
            return Ok(Redirection::Temporary(FileRedirection {
                used_as,
                workspace: directory.clone(),
                path,
            }));
        }
        let file = self.file_of_workspace(used_as, &whole, work).map_err(workspace)?;
        Ok(Redirection::File(file))
    }

    /// The temporary directory, and the name in it, where a path names a file directly in there that is none of the workspace.
    fn temporary(&self, whole: &str) -> Option<(&'a PinnedDirectory, PathBelow)> {
        let directory = self.request.temporary?;
        let workspace = self.request.workspace;
        if !self.policy.grammar.temporary_files
            || workspace.is_some_and(|workspace| paths::is_within(whole, &workspace.path))
        {
            return None;
        }
        let name = whole
            .strip_prefix(directory.path.as_str())?
            .strip_prefix('/')
            .filter(|name| !name.contains('/'))?;
        Some((directory, PathBelow::try_from(name.to_owned()).ok()?))
    }

    /// Whether the supervisor may make a file of the temporary directory, or read one there.
    fn temporary_file(
        &mut self,
        used_as: FileUse,
        whole: &str,
        directory: &PinnedDirectory,
        work: &Work<'_>,
    ) -> Result<(), &'static str> {
        self.expect_open(used_as, whole, directory, work)?;
        if used_as.writes() && work.context.is_apart {
            return Err("commands in a word of another one make no files there");
        }
        if used_as.writes() && !self.made.iter().any(|made| made == whole) {
            if self.lookup.real(whole).is_some() {
                return Err("there is a file of that name already, which this command did not make");
            }
            self.made.push(whole.to_owned());
        }
        Ok(())
    }

    fn file_of_workspace(
        &self,
        used_as: FileUse,
        whole: &str,
        work: &Work<'_>,
    ) -> Result<FileRedirection, &'static str> {
        if !self.policy.grammar.file_redirections {
            return Err("redirections from and to files of the workspace are not read");
        }
        let workspace = self.workspace()?;
        let below = whole
            .strip_prefix(workspace.path.as_str())
            .and_then(|rest| rest.strip_prefix('/'))
            .and_then(|below| PathBelow::try_from(below.to_owned()).ok());
        let Some(path) = below else {
            return Err("the file is not in the workspace of the agent");
        };
        self.expect_open(used_as, whole, workspace, work)?;
        Ok(FileRedirection {
            used_as,
            workspace: workspace.clone(),
            path,
        })
    }

    /// Whether nothing speaks against a file but where it lies.
    fn expect_open(
        &self,
        used_as: FileUse,
        whole: &str,
        directory: &PinnedDirectory,
        work: &Work<'_>,
    ) -> Result<(), &'static str> {
        if self.is_protected(whole, work.context, &[], Reading::Path) {
            return Err("this belongs to the server itself");
        }
        if !self.is_without_links(whole, directory) {
            return Err("a link leads to the file");
        }
        if used_as.writes() {
            if self.writes_deciding(work, std::slice::from_ref(&whole.to_owned())) {
                return Err("the file decides what programs start");
            }
            if self.lookup.inspect(whole).is_some() {
                return Err("the file is a program");
            }
        }
        Ok(())
    }

    /// The workspace in which files are opened and looked for. One that holds the home directory, or everything, holds too much that
    /// decides what starts.
    pub(super) fn workspace(&self) -> Result<&PinnedDirectory, &'static str> {
        let workspace = self.request.workspace;
        let workspace = workspace.ok_or(
            "there is no workspace here: its directory does not exist, or the command runs on a node",
        )?;
        let home = self.lookup.home();
        let real = self.lookup.real(home);
        let holds_home = [Some(home), real.as_deref()]
            .into_iter()
            .flatten()
            .any(|home| paths::is_within(home, &workspace.path));
        if holds_home {
            return Err("the workspace holds the home directory");
        }
        Ok(workspace)
    }

    /// Whether the part of a path that is there has no links below the workspace.
    fn is_without_links(&self, path: &str, workspace: &PinnedDirectory) -> bool {
        let ends = path.match_indices('/').map(|(at, _)| at).chain([path.len()]);
        let prefixes = ends.filter_map(|end| path.get(..end));
        let mut below = prefixes.filter(|prefix| prefix.len() > workspace.path.len());
        below.all(|prefix| self.lookup.real(prefix).is_none_or(|real| real == prefix))
    }
}
