/** Records about a room's members: their reports about each other, and their suspensions. */

import type { Notice } from '../../src/protocol/notices.ts';

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
   * passed. `cutOff`: `about` linked to no other member, or to no member of another browser.
   * `alone`: `about` reported a fault that no other member saw. `outage`: a generation failed, and
   * no single member was at fault.
   */
  readonly kind: 'unlinked' | 'broken' | 'late' | 'cutOff' | 'alone' | 'outage';
  readonly generation: number;
  /**
   * Ids of two members: the reporter, and the member that the report is about. Both ids are equal
   * if the fault has no reporter. Both are '' if the fault is about no member.
   */
  readonly by: string;
  readonly about: string;
  /**
   * Ids of the browsers of these two members, or the ids of the members if the browser is unknown.
   * Browser ids stay valid when a tab is reopened.
   */
  readonly byBrowser: string;
  readonly aboutBrowser: string;
  /**
   * Whether the report is credible. It is not credible if `by` linked to no other member, if `by`
   * did not name `about` itself, or if the link used a relay over which no pair linked.
   */
  readonly isCredible: boolean;
  /** Number of ageing intervals since the fault. */
  readonly age: number;
}

export type Faults = readonly Fault[];

/** Reason for a suspension. */
export type Reason = Extract<Notice, { code: 'suspended' }>['reason'];

export interface Suspension {
  /**
   * Number that identifies the suspension in timers, because browser ids must not leave the room's
   * state.
   */
  readonly id: number;
  readonly times: number;
  readonly reason: Reason;
  /** Whether the suspension is in force. After its end the record is kept for the probation. */
  readonly isOn: boolean;
}

/** A newcomer receives the run's state from `feeder`; see `feeds.ts`. */
export interface Feed {
  readonly feeder: string;
  /**
   * Number of the feed, under which newcomer and feeder are linked. No generation has this number.
   */
  readonly generation: number;
}
