//! Events as the streams send them.

use std::{array, sync::Arc};

use arc_swap::ArcSwapOption;
use bytes::Bytes;

use countersign_ledger::events::Publication;

use crate::links::Links;

/// Events whose bytes are kept for the other streams that send them.
const KEPT_FRAMES: usize = 64;

/// Events as they are sent: made once for all streams that send them at about the same time.
#[derive(Debug)]
pub(crate) struct Frames {
    links: Links,
    /// Those with numbers, each at its number modulo the length.
    kept: [ArcSwapOption<Kept>; KEPT_FRAMES],
}

#[derive(Debug)]
struct Kept {
    publication: Arc<Publication>,
    frame: Bytes,
}

impl Frames {
    pub(crate) fn new(links: Links) -> Self {
        Self {
            links,
            kept: array::from_fn(|_| ArcSwapOption::empty()),
        }
    }

    /// The lines of an event.
    pub(crate) fn of(&self, publication: &Arc<Publication>) -> Bytes {
        let place = publication.seq.and_then(|seq| {
            let place = seq.rem_euclid(i64::try_from(KEPT_FRAMES).ok()?);
            self.kept.get(usize::try_from(place).ok()?)
        });
        let Some(place) = place else {
            return self.write(publication);
        };
        if let Some(kept) = &*place.load()
            && Arc::ptr_eq(&kept.publication, publication)
        {
            return kept.frame.clone();
        }
        let frame = self.write(publication);
        place.store(Some(Arc::new(Kept {
            publication: Arc::clone(publication),
            frame: frame.clone(),
        })));
        frame
    }

    fn write(&self, publication: &Publication) -> Bytes {
        let id = publication
            .seq
            .map_or_else(String::new, |seq| format!("id: {seq}\n"));
        let event_type = publication.event_type.as_str();
        // JSON as it is stored has no line breaks.
        let data = self.links.on_event(publication);
        format!("{id}event: {event_type}\ndata: {data}\n\n").into()
    }
}
