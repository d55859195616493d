/**
 * Types of conformance cases. A case is data and a function that gets a process group, so it can
 * run over memory links and in tabs.
 */
import type { ProcessGroup } from '../../src/collectives/processGroup.ts';
import type { RunWorldOptions } from '../../src/testing/index.ts';

interface Numbered {
  /**
   * Numbers below 100 are those of the original list. Cases that peergrad adds have numbers from
   * 100 on. docs/CONFORMANCE.md lists all cases.
   */
  readonly number: number;
  /** Several cases may have the same number; their titles differ. */
  readonly title: string;
}

/** A case that runs on every rank of a group, once per world size. Each run has its own group. */
export interface GroupCase extends Numbered {
  readonly worlds: readonly number[];
  /** Set if the case also runs in real tabs, with the world sizes that are possible there. */
  readonly inTabs?: true;
  /** Set if the case takes too long for `npm test`. Then only `npm run -s conformance` runs it. */
  readonly isLong?: true;
  /**
   * Set if the case needs the world group, because it creates subgroups. In tabs, all other cases
   * run in subgroups of one world.
   */
  readonly needsWorld?: true;
  /** Options of groups over memory links. Groups in tabs have the default options. */
  readonly options?: RunWorldOptions;
  /** Runs the case on one rank. The group may be in a failed state afterwards. */
  readonly run: (group: ProcessGroup, n: number) => Promise<void>;
}

/** A case that needs no group or creates its own worlds. It never runs in tabs. */
export interface LocalCase extends Numbered {
  readonly check: () => void | Promise<void>;
}

export type ConformanceCase = GroupCase | LocalCase;

export function sleep(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}
