//! The envelope and what is in it.

use super::{
    Hunk, Line, Operation,
    limits::MAX_OPERATIONS,
    path::{PatchPath, PathFault},
};

const BEGIN: &str = "*** Begin Patch";
const END: &str = "*** End Patch";
const ADD: &str = "*** Add File:";
const DELETE: &str = "*** Delete File:";
const UPDATE: &str = "*** Update File:";
const MOVE: &str = "*** Move to:";
const END_OF_FILE: &str = "*** End of File";
/// The forms of a here-document that a patch may still be wrapped in.
const HERE_DOCUMENTS: [&str; 3] = ["<<EOF", "<<'EOF'", "<<\"EOF\""];
const HERE_DOCUMENT_END: &str = "EOF";

/// A text is no patch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {fault}")]
pub struct ParseError {
    /// The line at fault, from 1.
    pub line: usize,
    /// What is wrong with that line.
    pub fault: Fault,
}

/// What is wrong with a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// The envelope does not begin.
    #[error("a patch begins with \"{BEGIN}\"")]
    NoBegin,
    /// The envelope does not end.
    #[error("a patch ends with \"{END}\"")]
    NoEnd,
    /// There is nothing in it.
    #[error("the patch changes nothing")]
    Empty,
    /// There is too much in it.
    #[error("a patch has at most {MAX_OPERATIONS} operations")]
    TooManyOperations,
    /// Something else than an operation.
    #[error("expected \"{ADD} PATH\", \"{DELETE} PATH\", \"{UPDATE} PATH\" or \"{END}\"")]
    NoOperation,
    /// A path that cannot be meant.
    #[error(transparent)]
    Path(PathFault),
    /// An update that updates nothing.
    #[error("the update has neither hunks nor \"{MOVE} PATH\"")]
    NoHunks,
    /// A hunk that changes nothing and holds on to nothing.
    #[error("the hunk has no lines")]
    EmptyHunk,
    /// A line of a hunk that begins with none of its marks.
    #[error("expected \"@@\" or a line that begins with a space, \"-\" or \"+\"")]
    NoHunkLine,
}

/// The operations of a patch.
pub(super) fn parse(text: &str) -> Result<Vec<Operation>, ParseError> {
    let mut reader = Reader::of(text)?;
    let mut operations = Vec::new();
    while let Some((number, line)) = reader.peek() {
        if line.trim().is_empty() {
            reader.skip();
            continue;
        }
        if operations.len() == MAX_OPERATIONS {
            return Err(fault(number, Fault::TooManyOperations));
        }
        operations.push(reader.operation(number, line)?);
    }
    if operations.is_empty() {
        return Err(fault(reader.end, Fault::Empty));
    }
    Ok(operations)
}

const fn fault(line: usize, fault: Fault) -> ParseError {
    ParseError { line, fault }
}

/// The lines between the ends of the envelope.
struct Reader<'a> {
    lines: Vec<&'a str>,
    /// Index of the next one.
    at: usize,
    /// Number of the first one in the whole text.
    first: usize,
    /// Number of the line that ends the envelope.
    end: usize,
}

impl<'a> Reader<'a> {
    fn of(text: &'a str) -> Result<Self, ParseError> {
        let mut lines: Vec<&str> = text.lines().collect();
        // `lines` takes the carriage return of CRLF; of a patch that has both kinds they belong to the content.
        let is_crlf = |line: &str| line.ends_with("\r\n");
        if !text
            .split_inclusive('\n')
            .filter(|line| line.ends_with('\n'))
            .all(is_crlf)
        {
            lines = text.split('\n').collect();
        }
        let is_blank = |line: &&str| line.trim().is_empty();
        let mut from = lines.iter().take_while(|line| is_blank(line)).count();
        let mut to = lines.len() - lines.iter().rev().take_while(|line| is_blank(line)).count();
        if let Some(first) = lines.get(from)
            && HERE_DOCUMENTS.contains(&first.trim_end())
            && to > from + 1
            && lines.get(to - 1).map(|line| line.trim_end()) == Some(HERE_DOCUMENT_END)
        {
            from += 1;
            to -= 1;
        }
        let is = |at: usize, what: &str| lines.get(at).is_some_and(|line| line.trim_end() == what);
        if !is(from, BEGIN) {
            return Err(fault(from + 1, Fault::NoBegin));
        }
        if to < from + 2 || !is(to - 1, END) {
            return Err(fault(to.max(from + 1), Fault::NoEnd));
        }
        Ok(Self {
            lines: lines.get(from + 1..to - 1).unwrap_or_default().to_vec(),
            at: 0,
            first: from + 2,
            end: to,
        })
    }

    /// The next line with its number.
    fn peek(&self) -> Option<(usize, &'a str)> {
        self.lines.get(self.at).map(|line| (self.first + self.at, *line))
    }

    const fn skip(&mut self) {
        self.at += 1;
    }

    fn operation(&mut self, number: usize, line: &'a str) -> Result<Operation, ParseError> {
        self.skip();
        if let Some(path) = line.strip_prefix(ADD) {
            let path = path_of(number, path)?;
            return Ok(Operation::Add {
                path,
                content: self.content(),
            });
        }
        if let Some(path) = line.strip_prefix(DELETE) {
            return Ok(Operation::Delete {
                path: path_of(number, path)?,
            });
        }
        if let Some(path) = line.strip_prefix(UPDATE) {
            let path = path_of(number, path)?;
            let to = self.target()?;
            let hunks = self.hunks()?;
            if hunks.is_empty() && to.is_none() {
                return Err(fault(number, Fault::NoHunks));
            }
            return Ok(Operation::Update { path, to, hunks });
        }
        Err(fault(number, Fault::NoOperation))
    }

    /// The lines of a new file.
    fn content(&mut self) -> String {
        let mut content = String::new();
        while let Some(line) = self.peek().and_then(|(_number, line)| line.strip_prefix('+')) {
            content.push_str(line);
            content.push('\n');
            self.skip();
        }
        content
    }

    fn target(&mut self) -> Result<Option<PatchPath>, ParseError> {
        let Some((number, line)) = self.peek() else {
            return Ok(None);
        };
        let Some(path) = line.strip_prefix(MOVE) else {
            return Ok(None);
        };
        self.skip();
        path_of(number, path).map(Some)
    }

    fn hunks(&mut self) -> Result<Vec<Hunk>, ParseError> {
        let mut hunks = Vec::new();
        while let Some((_number, line)) = self.peek() {
            if line.trim().is_empty() && !line.starts_with(' ') {
                // Between hunks; one inside of a hunk is taken there.
                self.skip();
                continue;
            }
            if line.starts_with("*** ") {
                break;
            }
            hunks.push(self.hunk()?);
        }
        Ok(hunks)
    }

    /// One hunk: its context lines, its lines, and whether the file ends there.
    fn hunk(&mut self) -> Result<Hunk, ParseError> {
        let mut hunk = Hunk {
            contexts: Vec::new(),
            lines: Vec::new(),
            at_end: false,
        };
        let begin = self.first + self.at;
        // Blank lines without their space: lines of the file if the hunk goes on behind them, else only air.
        let mut blanks = 0;
        while let Some((number, line)) = self.peek() {
            if let Some(context) = context_of(line) {
                if !hunk.lines.is_empty() {
                    break;
                }
                hunk.contexts
                    .extend((!context.is_empty()).then(|| context.to_owned()));
                self.skip();
                continue;
            }
            if line.trim_end() == END_OF_FILE {
                hunk.at_end = true;
                self.skip();
                break;
            }
            if line.starts_with("*** ") {
                break;
            }
            self.skip();
            if line.is_empty() || line == "\r" {
                blanks += 1;
                continue;
            }
            let taken = line_of(line).ok_or_else(|| fault(number, Fault::NoHunkLine))?;
            hunk.lines
                .extend((0..blanks).map(|_blank| Line::Keep(String::new())));
            blanks = 0;
            hunk.lines.push(taken);
        }
        if hunk.lines.is_empty() {
            return Err(fault(begin, Fault::EmptyHunk));
        }
        Ok(hunk)
    }
}

fn path_of(number: usize, text: &str) -> Result<PatchPath, ParseError> {
    PatchPath::parse(text.trim()).map_err(|path| fault(number, Fault::Path(path)))
}

/// The context that a line names, if it is one that does; `@@` alone names an empty one.
fn context_of(line: &str) -> Option<&str> {
    if line.trim_end() == "@@" {
        return Some("");
    }
    line.strip_prefix("@@ ")
}

fn line_of(line: &str) -> Option<Line> {
    let mut characters = line.chars();
    let mark = characters.next()?;
    let rest = characters.as_str().to_owned();
    match mark {
        ' ' => Some(Line::Keep(rest)),
        '-' => Some(Line::Remove(rest)),
        '+' => Some(Line::Insert(rest)),
        _ => None,
    }
}
