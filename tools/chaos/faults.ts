/** The faults that can be made, and what is known of one that was. */

/**
 * - `close`: a tab is closed, as a person does it.
 * - `crash`: a tab's renderer process is killed.
 * - `freeze`: a tab stands still for a while, and goes on.
 * - `cut`: a tab's cable is out for a while: no packet leaves or reaches it.
 * - `edge`: the connection of a tab to another breaks, and nobody is told.
 * - `server`: the signaling server is killed, and started again without any memory.
 * - `duplicate`: a tab is duplicated; the copy is one more tab.
 * - `join`: a new tab joins.
 */
export const FAULT_KINDS = ['close', 'crash', 'freeze', 'cut', 'edge', 'server', 'duplicate', 'join'] as const;
export type FaultKind = (typeof FAULT_KINDS)[number];

export interface Fault {
  kind: FaultKind;
  /** The tab that it befell, or that it brought; `null` for the server's. */
  tab: string | null;
  /** When it was made, milliseconds of the launcher's clock. */
  at: number;
  /**
   * When it was undone, if it is: the frozen tab goes on, the cable is in again, the server is
   * back.
   */
  curedAt: number | null;
  /** When it was left alone, whether all was well again or not. */
  endedAt: number;
}

/** Whether the others have to go on without its tab, for good or for a while. */
export function losesTab(kind: FaultKind): boolean {
  return kind === 'close' || kind === 'crash' || kind === 'freeze' || kind === 'cut';
}

/** Whether its tab is a new one. */
export function bringsTab(kind: FaultKind): boolean {
  return kind === 'duplicate' || kind === 'join';
}
