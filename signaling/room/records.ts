/** Records of a room's members: their reports about each other, and suspensions. */

/** Report of a rank whose generation cannot continue. */
export type Complaint =
  /** Links to these ranks broke or could not be opened. */
  | { readonly type: 'broken'; readonly peers: readonly string[] }
  /** These ranks did not call a collective before its deadline. */
  | { readonly type: 'late'; readonly peers: readonly string[] }
  /** No rank in particular is at fault. */
  | { readonly type: 'failed'; readonly message: string };

/** One entry of the fault record. */
export interface Fault {
  /**
   * `unlinked`: a link failed to open. `broken`: a link broke. `late`: a collective's deadline
   * passed. `cutOff`: `about` linked to no member of another browser. `alone`: `about` reported a
   * fault that no other member saw. `outage`: a generation failed, and no member in particular was
   * at fault.
   */
  readonly kind: 'unlinked' | 'broken' | 'late' | 'cutOff' | 'alone' | 'outage';
  readonly generation: number;
  /**
   * Members: the reporter, and the member that the report is about. Both are the same for faults
   * without a reporter, and '' for faults about no member.
   */
  readonly by: string;
  readonly about: string;
  /** Their browsers' ids, or their own without one: they outlast the members. */
  readonly byBrowser: string;
  readonly aboutBrowser: string;
  /**
   * False if `by` linked to no other member itself, did not name `about` itself, or the link led
   * over a relay over which no pair linked.
   */
  readonly isCredible: boolean;
  /** Number of ageing intervals since the fault. */
  readonly age: number;
}

export type Faults = readonly Fault[];

/** Reason of a suspension. */
export type Reason = 'unreachable' | 'unstable' | 'late' | 'stuck' | 'alone' | 'failing';

export interface Suspension {
  /** Number of its timer: browser ids do not leave the room's state. */
  readonly id: number;
  readonly times: number;
  readonly reason: Reason;
  /** Whether it is in force; afterwards it counts for its probation. */
  readonly isOn: boolean;
}
