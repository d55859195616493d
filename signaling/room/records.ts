/** What a room records of its members: what they reported of each other, and who is suspended. */

/** What a rank reports when its generation cannot go on. */
export type Complaint =
  /** Links to these ranks broke, or could not be made. */
  | { readonly type: 'broken'; readonly peers: readonly string[] }
  /** These ranks did not call a collective before its deadline. */
  | { readonly type: 'late'; readonly peers: readonly string[] }
  /** Nobody in particular. */
  | { readonly type: 'failed'; readonly message: string };

/** One entry of the room's record. */
export interface Fault {
  /**
   * `unlinked`: no link came about. `broken`: one broke. `late`: a collective's deadline passed.
   * `cutOff`: `about` linked to nobody outside its browser. `alone`: `about` reported a fault that
   * nobody else saw. `outage`: a generation failed, and nobody in particular was at fault.
   */
  readonly kind: 'unlinked' | 'broken' | 'late' | 'cutOff' | 'alone' | 'outage';
  readonly generation: number;
  /**
   * Members; the same for what is not one member's word against another's, and '' where it is about
   * nobody.
   */
  readonly by: string;
  readonly about: string;
  /** False where `by` linked to nobody either, or did not name `about` itself. */
  readonly isCredible: boolean;
  /** How often the record has been looked through since. */
  readonly age: number;
}

export type Faults = readonly Fault[];

/** Why a member is suspended. */
export type Reason = 'unreachable' | 'unstable' | 'late' | 'stuck' | 'alone' | 'failing';

export interface Suspension {
  /** The number of its timer: browsers' ids stay in the room's state. */
  readonly id: number;
  readonly times: number;
  readonly reason: Reason;
  /** Whether it lasts. */
  readonly isOn: boolean;
}
