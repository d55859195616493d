/**
 * Processes of a browser, read from /proc. A browser whose tabs keep all cores busy answers CDP
 * commands late or not at all, and /proc needs no answer of the browser.
 */
import { readdirSync, readFileSync } from 'node:fs';

/** Returns the ids of a process and of all its descendants, the process itself first. */
export function processTree(root: number): number[] {
  const children = new Map<number, number[]>();
  for (const name of readdirSync('/proc')) {
    const parent = /^\d+$/.test(name) ? parentOf(Number(name)) : null;
    if (parent !== null) children.set(parent, [...(children.get(parent) ?? []), Number(name)]);
  }
  const tree = [root];
  for (const pid of tree) tree.push(...(children.get(pid) ?? []));
  return tree;
}

/** Returns the parent's id; `null` if the process has ended. */
function parentOf(pid: number): number | null {
  const stat = textOf(`/proc/${pid}/stat`);
  // The name, in parentheses, may contain spaces and parentheses. The state and the parent follow.
  const [, parent] = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  return parent === undefined ? null : Number(parent);
}

/**
 * Returns the memory of a process in bytes. Memory that several processes share counts for each of
 * them in equal parts (PSS), so that the sum over all processes is the memory in use. Returns 0 if
 * the process has ended.
 */
export function memoryOf(pid: number): number {
  const kib = /^Pss:\s+(\d+) kB$/m.exec(textOf(`/proc/${pid}/smaps_rollup`))?.[1] ?? 0;
  return Number(kib) * 1024;
}

/** Returns the memory of a process and all its descendants in bytes; see {@link memoryOf}. */
export function memoryOfTree(root: number): number {
  return processTree(root).reduce((sum, pid) => sum + memoryOf(pid), 0);
}

/** Kills a process and all its descendants at once, without any clean-up. */
export function killTree(root: number): void {
  // The root is first in the tree, because it would restart its descendants.
  for (const pid of processTree(root)) {
    try {
      process.kill(pid, 'SIGKILL');
    } catch {
      // The process has ended.
    }
  }
}

/** Returns the text of a file in /proc; an empty text if the process has ended. */
function textOf(file: string): string {
  try {
    return readFileSync(file, 'utf8');
  } catch {
    return '';
  }
}
