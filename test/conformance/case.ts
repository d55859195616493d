/**
 * What a conformance case is: data, and a function of a process group, so that it runs over memory
 * links and in tabs alike.
 */
import type { ProcessGroup } from '../../src/collectives/processGroup.ts';
import type { RunWorldOptions } from '../../src/testing/index.ts';

interface Numbered {
  /**
   * Below 100 the number of the list we took cases from; from 100 on our own. docs/CONFORMANCE.md
   * has both.
   */
  readonly number: number;
  /** A number may have several entries, each with a title of its own. */
  readonly title: string;
}

/** Runs on every rank of a group of its own, once per world size. */
export interface GroupCase extends Numbered {
  readonly worlds: readonly number[];
  /** Whether it is one of those that run in real tabs too, at the world sizes that fit there. */
  readonly inTabs?: true;
  /** Takes too long for `npm test`: only the command runs it. */
  readonly isLong?: true;
  /**
   * Needs the world group, because it makes subgroups: in tabs, others run in subgroups of one
   * world.
   */
  readonly needsWorld?: true;
  /** Options of groups over memory links; groups in tabs have the defaults. */
  readonly options?: RunWorldOptions;
  /**
   * @throws (rejects) an error that says where and what it expected. The group may have failed by
   *   the end.
   */
  readonly run: (group: ProcessGroup, n: number) => Promise<void>;
}

/** Needs no group, or makes worlds of its own; never in tabs. */
export interface LocalCase extends Numbered {
  readonly check: () => void | Promise<void>;
}

export type ConformanceCase = GroupCase | LocalCase;

export function sleep(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}
