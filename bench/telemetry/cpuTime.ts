/**
 * What processes have computed so far, by Linux' own count: unlike the clock, it does not go on
 * while others compute.
 */
import { readdirSync, readFileSync } from 'node:fs';

/** Linux counts in hundredths of a second, wherever Node runs (USER_HZ). */
const TICK_MS = 10;
/** Of SwiftShader's threads, which compute shaders, the model's among them. */
const SHADER_THREAD = 'Thread<';

/** Milliseconds. */
export interface CpuTime {
  total: number;
  /**
   * All but shaders, of which telemetry has none and whose time no two steps have in common to a
   * few percent.
   */
  besideShaders: number;
}

interface Stat {
  name: string;
  parent: number;
  ms: number;
}

/**
 * What all processes that descend from this one have computed, or `null` where there is no /proc.
 */
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

/** By proc_pid_stat(5); `null` for what has ended meanwhile. */
function statOf(folder: string): Stat | null {
  try {
    const text = readFileSync(`${folder}/stat`, 'utf8');
    // The name, in parentheses, may have spaces: what follows it is counted from the third field
    // on.
    const end = text.lastIndexOf(')');
    const fields = text.slice(end + 2).split(' ');
    const [parent, user, system] = [fields[1], fields[11], fields[12]].map(Number) as [number, number, number];
    return { name: text.slice(text.indexOf('(') + 1, end), parent, ms: (user + system) * TICK_MS };
  } catch {
    return null;
  }
}
