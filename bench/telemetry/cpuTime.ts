/**
 * CPU time of processes, by Linux' own count: unlike the clock, it does not advance while others
 * compute.
 */
import { readdirSync, readFileSync } from 'node:fs';

/** Linux counts in hundredths of a second in all configurations of Node (USER_HZ). */
const TICK_MS = 10;
/** Name of SwiftShader's threads, which compute shaders, including the model's. */
const SHADER_THREAD = 'Thread<';

/** Milliseconds. */
export interface CpuTime {
  total: number;
  /**
   * All CPU time except shaders: telemetry has none, and their time varies by a few percent from
   * step to step.
   */
  besideShaders: number;
}

interface Stat {
  name: string;
  parent: number;
  ms: number;
}

/** CPU time of all descendants of this process, or `null` without /proc. */
export function cpuTimeOfDescendants(): CpuTime | null {
  const processes = new Map(numbersIn('/proc').map((id) => [id, statOf(`/proc/${id}`)]));
  if (processes.size === 0) return null;
  const descends = (id: number): boolean => {
    const parent = processes.get(id)?.parent;
    return parent === process.pid || (parent !== undefined && descends(parent));
  };
  let total = 0;
  let shaders = 0;
  for (const [id, stat] of processes) {
    if (!stat || !descends(id)) continue;
    total += stat.ms;
    const tasks = `/proc/${id}/task`;
    const threads = numbersIn(tasks).map((thread) => statOf(`${tasks}/${thread}`));
    for (const thread of threads) if (thread?.name.startsWith(SHADER_THREAD)) shaders += thread.ms;
  }
  return { total, besideShaders: total - shaders };
}

function numbersIn(folder: string): number[] {
  try {
    return readdirSync(folder).map(Number).filter(Number.isInteger);
  } catch {
    return [];
  }
}

/** Parses proc_pid_stat(5); `null` for a process that has ended. */
function statOf(folder: string): Stat | null {
  try {
    const text = readFileSync(`${folder}/stat`, 'utf8');
    // The name, in parentheses, may contain spaces: later fields are counted from the third on.
    const end = text.lastIndexOf(')');
    const fields = text.slice(end + 2).split(' ');
    const [parent, user, system] = [fields[1], fields[11], fields[12]].map(Number) as [number, number, number];
    return { name: text.slice(text.indexOf('(') + 1, end), parent, ms: (user + system) * TICK_MS };
  } catch {
    return null;
  }
}
