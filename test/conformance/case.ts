/**
 * A conformance case: data and a function of a process group, so it can run over memory links and
 * in tabs.
 */
import type { ProcessGroup } from '../../src/collectives/processGroup.ts';
import type { RunWorldOptions } from '../../src/testing/index.ts';

interface Numbered {
  /**
   * Below 100: the number in the original list; from 100 on: cases of peergrad. docs/CONFORMANCE.md
   * lists both.
   */
  readonly number: number;
  /** A number may have several entries with different titles. */
  readonly title: string;
}

/** Runs on every rank of a group of its own, once per world size. */
export interface GroupCase extends Numbered {
  readonly worlds: readonly number[];
  /** Whether the case also runs in real tabs, at the world sizes that fit there. */
  readonly inTabs?: true;
  /** The case takes too long for `npm test`: only the command runs it. */
  readonly isLong?: true;
  /**
   * The case needs the world group, because it creates subgroups. In tabs, other cases run in
   * subgroups of one world.
   */
  readonly needsWorld?: true;
  /** Options of groups over memory links; groups in tabs have the defaults. */
  readonly options?: RunWorldOptions;
  /**
   * @throws (rejects) an error with the place and the expected value. The group may have failed at
   *   the end.
   */
  readonly run: (group: ProcessGroup, n: number) => Promise<void>;
}

/** A case that needs no group, or creates its own worlds; never in tabs. */
export interface LocalCase extends Numbered {
  readonly check: () => void | Promise<void>;
}

export type ConformanceCase = GroupCase | LocalCase;

export function sleep(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}
