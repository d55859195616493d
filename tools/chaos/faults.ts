/** The supported faults, and the record of an injected one. */

/**
 * - `close`: a tab is closed, as a user does it.
 * - `crash`: a tab's renderer process is killed.
 * - `freeze`: a tab is stopped for some time, and continues.
 * - `cut`: a tab has no network for some time: no packet leaves or reaches it.
 * - `edge`: the connection of a tab to another breaks without an event.
 * - `server`: the signaling server is killed, and restarted without its memory.
 * - `duplicate`: a tab is duplicated; the copy is one more tab.
 * - `join`: a new tab joins.
 */
export const FAULT_KINDS = ['close', 'crash', 'freeze', 'cut', 'edge', 'server', 'duplicate', 'join'] as const;
export type FaultKind = (typeof FAULT_KINDS)[number];

export interface Fault {
  kind: FaultKind;
  /** The affected or added tab; `null` for the server's. */
  tab: string | null;
  /** When it was injected, in milliseconds of the launcher's clock. */
  at: number;
  /**
   * When it was undone, if it was: the frozen tab continued, the network or the server was back.
   */
  undoneAt: number | null;
  /** When the next fault could follow, with or without recovery. */
  endedAt: number;
}

/** Whether the other tabs continue without its tab, permanently or for a while. */
export function losesTab(kind: FaultKind): boolean {
  return kind === 'close' || kind === 'crash' || kind === 'freeze' || kind === 'cut';
}

/** Whether it adds a tab. */
export function bringsTab(kind: FaultKind): boolean {
  return kind === 'duplicate' || kind === 'join';
}
