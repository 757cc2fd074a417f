// The views beside the inbox and the policy: loaded together when one of them is opened for the first time.

export { Audit } from "./audit.tsx";
export { Health } from "./health.tsx";
export { History } from "./history.tsx";
export { Nodes } from "./nodes.tsx";
export { People } from "./people.tsx";
export { Runs } from "./runs.tsx";
export { Sessions } from "./sessions.tsx";
