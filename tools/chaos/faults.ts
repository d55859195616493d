/** The supported faults, and the record of an injected fault. */

/**
 * - `close`: a tab is closed, as by a user.
 * - `crash`: a tab's renderer process is killed.
 * - `freeze`: a tab is stopped for some time and then continues.
 * - `cut`: a tab has no network for some time: no packet leaves or reaches it.
 * - `edge`: the connection between two tabs breaks, without an event in one of them.
 * - `server`: the signaling server is killed, and restarted with no knowledge of its rooms.
 * - `duplicate`: a tab is duplicated. The copy is an additional tab.
 * - `join`: a new tab joins.
 */
export const FAULT_KINDS = ['close', 'crash', 'freeze', 'cut', 'edge', 'server', 'duplicate', 'join'] as const;
export type FaultKind = (typeof FAULT_KINDS)[number];

export interface Fault {
  kind: FaultKind;
  /** The affected or added tab; `null` if the server is affected. */
  tab: string | null;
  /** When the fault was injected, in milliseconds of the launcher's clock. */
  at: number;
  /**
   * When the fault was undone: the frozen tab continued, or the network or the server was available
   * again. `null` if it was not undone.
   */
  undoneAt: number | null;
  /** When the next fault could follow, with or without recovery. */
  endedAt: number;
}

/** Returns whether the other tabs continue without the affected tab, permanently or for a while. */
export function losesTab(kind: FaultKind): boolean {
  return kind === 'close' || kind === 'crash' || kind === 'freeze' || kind === 'cut';
}

/** Returns whether the fault adds a tab. */
export function bringsTab(kind: FaultKind): boolean {
  return kind === 'duplicate' || kind === 'join';
}
