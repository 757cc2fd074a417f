//! Files that the redirections of a segment name (G13): those of the workspace become a part of its step.

use countersign_domain::{FileRedirection, FileUse, PathBelow, PinnedDirectory, Redirection};

use super::{evaluation::Evaluation, segment::Reading, work::Work};
use crate::command::{
    paths,
    syntax::{ReadRedirection, Word},
};

impl Evaluation<'_> {
    /// Puts the redirections of a segment into its step.
    ///
    /// # Errors
    /// Why one of them is not opened without a question.
    pub(super) fn redirect(&self, work: &mut Work<'_>) -> Result<(), &'static str> {
        let mut redirections = Vec::with_capacity(work.segment.redirections.len());
        for redirection in &work.segment.redirections {
            redirections.push(match redirection {
                ReadRedirection::Known(redirection) => redirection.clone(),
                ReadRedirection::File { used_as, name } => {
                    Redirection::File(self.file_of_workspace(*used_as, name, work)?)
                }
            });
        }
        work.redirections = redirections;
        Ok(())
    }

    fn file_of_workspace(
        &self,
        used_as: FileUse,
        name: &Word,
        work: &Work<'_>,
    ) -> Result<FileRedirection, &'static str> {
        if work.context.depth > 0 {
            return Err("a shell inside of the command would open the file");
        }
        let workspace = self.workspace()?;
        let named = if name.class.is_below_home() {
            paths::expand_home(&name.value, self.lookup.home())
        } else {
            name.value.clone()
        };
        // Behind a link it is not what it reads.
        if named.split('/').any(|part| part == "..") {
            return Err("the name of the file goes up");
        }
        if named.ends_with('/') || named.ends_with("/.") {
            return Err("the name is that of a directory");
        }
        let base = if named.starts_with('/') {
            "/"
        } else {
            let known = work.context.directory.known();
            known.ok_or("the directory is not certain after this cd")?
        };
        let whole = paths::join_normalised(base, &named);
        let below = whole
            .strip_prefix(workspace.path.as_str())
            .and_then(|rest| rest.strip_prefix('/'))
            .and_then(|below| PathBelow::try_from(below.to_owned()).ok());
        let Some(path) = below else {
            return Err("the file is not in the workspace of the agent");
        };
        if self.is_protected(&whole, work.context, &[], Reading::Path) {
            return Err("this belongs to the server itself");
        }
        if !self.is_without_links(&whole, workspace) {
            return Err("a link leads to the file");
        }
        if used_as.writes() {
            if self.writes_deciding(work, std::slice::from_ref(&whole)) {
                return Err("the file decides what programs start");
            }
            if self.lookup.inspect(&whole).is_some() {
                return Err("the file is a program");
            }
        }
        Ok(FileRedirection {
            used_as,
            workspace: workspace.clone(),
            path,
        })
    }

    /// The workspace in which files are opened and looked for. One that holds the home directory, or everything, holds too much that
    /// decides what starts.
    pub(super) fn workspace(&self) -> Result<&PinnedDirectory, &'static str> {
        let workspace = self.request.workspace;
        let workspace = workspace.ok_or("files of the workspace are not looked at where this runs")?;
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
