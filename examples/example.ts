/** The exports of an example, and what it receives. */
import type { ProcessGroup } from '../src/index.ts';

/** What the page offers an example besides its process group. */
export interface ExamplePage {
  /** URL of the folder of data files that the user passed; `null`: none. */
  data: string | null;
  /** Draws curves, one point for each step. `curves` has their values by name. */
  plot: (title: string, curves: Readonly<Record<string, readonly number[]>>) => void;
}

/** Exports of an example's file. */
export interface Example {
  /** Default number of tabs. */
  worldSize: number;
  /** Runs on every rank. `print` prints a line of this rank. */
  main: (group: ProcessGroup, print: (line: string) => void, page: ExamplePage) => Promise<void>;
}
