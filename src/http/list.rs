//! Pages of lists.

use crate::{
    http::{
        extract::{Parameters, QueryForm},
        problem::Problem,
        reply::Page,
    },
    ledger,
};

const DEFAULT_LIMIT: u32 = 50;
const MAX_LIMIT: u32 = 500;

/// Which page of a list is wanted.
#[derive(Debug, Clone, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
pub(in crate::http) struct PageQuery {
    /// Items on the page.
    #[param(value_type = Option<u32>, minimum = 1, maximum = 500, default = 50)]
    limit: u32,
    /// `nextCursor` of the page before.
    cursor: Option<String>,
}

impl PageQuery {
    /// As the ledger takes it.
    pub(in crate::http) fn page(&self) -> Result<ledger::Page, Problem> {
        let cursor = self.cursor.as_deref().map(str::parse).transpose();
        Ok(ledger::Page {
            limit: self.limit,
            cursor: cursor.map_err(|_not_ours| foreign_cursor())?,
        })
    }

    /// Cuts the page out of a list that is at hand; the cursor is the key of the last item before it.
    pub(in crate::http) fn cut<T, W>(
        &self,
        list: Vec<T>,
        key: impl Fn(&T) -> &str,
        to_wire: impl Fn(T) -> W,
    ) -> Result<Page<W>, Problem> {
        let start = match &self.cursor {
            None => 0,
            Some(cursor) => {
                let last = list.iter().position(|item| key(item) == cursor);
                last.ok_or_else(foreign_cursor)? + 1
            }
        };
        let limit = usize::try_from(self.limit).unwrap_or(usize::MAX);
        let is_more = list.len() > start.saturating_add(limit);
        let items: Vec<T> = list.into_iter().skip(start).take(limit).collect();
        let next_cursor = items.last().filter(|_| is_more).map(|item| key(item).to_owned());
        Ok(Page {
            items: items.into_iter().map(to_wire).collect(),
            next_cursor,
        })
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
        })
    }
}

impl<T> Page<T> {
    /// The wire form of a part of a list.
    pub(in crate::http) fn of<U>(listing: ledger::Listing<U>, to_wire: impl Fn(U) -> T) -> Self {
        Self {
            items: listing.items.into_iter().map(to_wire).collect(),
            next_cursor: listing.next.map(|cursor| cursor.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::problem::Code;

    fn cut(limit: u32, cursor: Option<&str>) -> Result<(Vec<&'static str>, Option<String>), Code> {
        let query = PageQuery {
            limit,
            cursor: cursor.map(str::to_owned),
        };
        let page = query.cut(vec!["a", "b", "c"], |item| item, |item| item);
        page.map(|page| (page.items, page.next_cursor))
            .map_err(|problem| problem.code())
    }

    #[test]
    fn pages_follow_each_other_without_gap_or_repetition() {
        assert_eq!(cut(2, None), Ok((vec!["a", "b"], Some("b".to_owned()))));
        assert_eq!(cut(2, Some("b")), Ok((vec!["c"], None)));
        assert_eq!(cut(3, None), Ok((vec!["a", "b", "c"], None)));
        assert_eq!(cut(3, Some("x")), Err(Code::InvalidRequest));
    }
}
