//! What clients without a stream need: to wait in one request, to know who they are, and to be told who said no.

mod answers;
mod waits;
