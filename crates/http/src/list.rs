//! Pages of lists.

use std::str::FromStr;

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};

use countersign_wire::{approval::ApprovalView, page::Page};

use crate::{
    extract::{Parameters, QueryForm},
    problem::Problem,
};

const DEFAULT_LIMIT: u32 = 50;
const MAX_LIMIT: u32 = 500;

/// Which page of a list is wanted.
#[derive(Debug, Clone, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct PageQuery {
    /// Items on the page.
    #[param(value_type = Option<u32>, minimum = 1, maximum = 500, default = 50)]
    limit: u32,
    /// `nextCursor` of the page before.
    cursor: Option<String>,
    /// How much of each item: `full` unless given, or `brief`, what a list shows of it. Where an item has no more than that,
    /// both are the same.
    #[param(value_type = Option<ApprovalView>)]
    pub(crate) view: ApprovalView,
}

/// A list, as its cursors name it: a cursor of another list is none.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ListName<'a>(pub(crate) &'static str, pub(crate) &'a str);

impl ListName<'static> {
    /// A list that there is only one of.
    pub(crate) const fn only(name: &'static str) -> Self {
        Self(name, "")
    }
}

impl ListName<'_> {
    /// The wire form of a part of this list.
    pub(crate) fn page<T, W>(
        self,
        listing: countersign_ledger::Listing<T>,
        to_wire: impl Fn(T) -> W,
    ) -> Page<W> {
        Page {
            items: listing.items.into_iter().map(to_wire).collect(),
            next_cursor: listing.next.map(|place| self.cursor(&place.to_string())),
        }
    }

    /// A place in the list as the text of a cursor.
    fn cursor(self, place: &str) -> String {
        URL_SAFE_NO_PAD.encode(format!("{}\n{}\n{place}", self.0, self.1))
    }

    /// The place that a cursor of this list says.
    fn place(self, cursor: &str) -> Result<String, Problem> {
        let text = URL_SAFE_NO_PAD
            .decode(cursor)
            .ok()
            .and_then(|bytes| String::from_utf8(bytes).ok());
        let place = text.as_deref().and_then(|text| {
            let rest = text.strip_prefix(self.0)?.strip_prefix('\n')?;
            rest.strip_prefix(self.1)?.strip_prefix('\n')
        });
        place.map(str::to_owned).ok_or_else(foreign_cursor)
    }
}

impl PageQuery {
    /// As the ledger takes it.
    pub(crate) fn page(&self, list: ListName<'_>) -> Result<countersign_ledger::Page, Problem> {
        let place = self
            .cursor
            .as_deref()
            .map(|cursor| list.place(cursor))
            .transpose()?;
        let cursor = place.as_deref().map(str::parse).transpose();
        Ok(countersign_ledger::Page {
            limit: self.limit,
            cursor: cursor.map_err(|_not_ours| foreign_cursor())?,
        })
    }

    /// Cuts the page out of a list that is at hand. A cursor has the key of the last item before the page, and the
    /// place that it had: where it is gone, what came after it has moved up into that place.
    pub(crate) fn cut<T, W>(
        &self,
        name: ListName<'_>,
        list: Vec<T>,
        key: impl Fn(&T) -> &str,
        to_wire: impl Fn(T) -> W,
    ) -> Result<Page<W>, Problem> {
        let start = match &self.cursor {
            None => 0,
            Some(cursor) => {
                let place = name.place(cursor)?;
                let (index, last) = place.split_once('\n').ok_or_else(foreign_cursor)?;
                let index: usize = index.parse().map_err(|_no_number| foreign_cursor())?;
                let found = list.iter().position(|item| key(item) == last);
                found.map_or(index, |index| index + 1)
            }
        };
        let limit = usize::try_from(self.limit).unwrap_or(usize::MAX);
        let end = start.saturating_add(limit);
        let is_more = list.len() > end;
        let items: Vec<T> = list.into_iter().skip(start).take(limit).collect();
        let last = items.last().filter(|_| is_more);
        let next_cursor = last.map(|item| name.cursor(&format!("{}\n{}", end - 1, key(item))));
        Ok(Page {
            items: items.into_iter().map(to_wire).collect(),
            next_cursor,
        })
    }
}

/// Which item of a list comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
    Oldest,
    Newest,
}

/// There is no other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("expected oldest or newest")]
pub(crate) struct UnknownOrder;

impl FromStr for Order {
    type Err = UnknownOrder;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "oldest" => Ok(Self::Oldest),
            "newest" => Ok(Self::Newest),
            _ => Err(UnknownOrder),
        }
    }
}

fn foreign_cursor() -> Problem {
    Problem::field("cursor", "expected the nextCursor of an earlier answer")
}

impl QueryForm for PageQuery {
    fn read(parameters: &mut Parameters) -> Result<Self, Problem> {
        let limit = parameters.text("limit")?.map_or(Ok(DEFAULT_LIMIT), |text| {
            let limit = text.parse().ok().filter(|limit| (1..=MAX_LIMIT).contains(limit));
            limit.ok_or_else(|| Problem::field("limit", "expected a number from 1 to 500"))
        })?;
        Ok(Self {
            limit,
            cursor: parameters.text("cursor")?,
            view: parameters.value("view")?.unwrap_or_default(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::problem::Code;

    const LETTERS: ListName<'static> = ListName("letters", "latin");

    fn cut_of(
        list: Vec<&'static str>,
        limit: u32,
        cursor: Option<&str>,
    ) -> Result<(Vec<&'static str>, Option<String>), Code> {
        let query = PageQuery {
            limit,
            cursor: cursor.map(str::to_owned),
            view: ApprovalView::Full,
        };
        let page = query.cut(LETTERS, list, |item| item, |item| item);
        page.map(|page| (page.items, page.next_cursor))
            .map_err(|problem| problem.code())
    }

    fn cut(limit: u32, cursor: Option<&str>) -> Result<(Vec<&'static str>, Option<String>), Code> {
        cut_of(vec!["a", "b", "c"], limit, cursor)
    }

    #[test]
    fn pages_follow_each_other_without_gap_or_repetition() {
        let after_b = LETTERS.cursor("1\nb");
        assert_eq!(cut(2, None), Ok((vec!["a", "b"], Some(after_b.clone()))));
        assert_eq!(cut(2, Some(&after_b)), Ok((vec!["c"], None)));
        assert_eq!(cut(3, None), Ok((vec!["a", "b", "c"], None)));
    }

    #[test]
    fn what_comes_and_goes_between_two_pages_moves_nothing() {
        let after_b = LETTERS.cursor("1\nb");
        let rest = |list| cut_of(list, 9, Some(&after_b)).map(|(items, _)| items);
        assert_eq!(rest(vec!["0", "a", "b", "c"]), Ok(vec!["c"]));
        assert_eq!(rest(vec!["b", "c", "d"]), Ok(vec!["c", "d"]));
        assert_eq!(rest(vec!["a", "c", "d"]), Ok(vec!["c", "d"]));
        assert_eq!(rest(vec![]), Ok(vec![]));
    }

    #[test]
    fn a_cursor_of_another_list_is_none() {
        for foreign in [
            "x".to_owned(),
            String::new(),
            LETTERS.cursor("b"),
            LETTERS.cursor("x\nb"),
            ListName("letters", "greek").cursor("1\nb"),
            ListName("lett", "ers\nlatin").cursor("1\nb"),
            ListName::only("letters").cursor("1\nb"),
        ] {
            assert_eq!(cut(3, Some(&foreign)), Err(Code::InvalidRequest), "{foreign}");
        }
    }
}
