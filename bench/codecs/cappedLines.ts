/** Hosts on this machine whose lines are only so fast, made by a script such as this machine's `hosts`. */
import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import type { Hosts } from '../world/world.ts';

const run = promisify(execFile);
/** Where the script's hosts reach this machine. */
const ADDRESS = '10.77.0.254';

/** Has `use` work on `n` hosts, each of which receives `rate` (as `tc` says it) at most; they are gone afterwards. */
export async function onHosts<T>(
  script: string,
  n: number,
  rate: string,
  use: (hosts: Hosts) => Promise<T>,
): Promise<T> {
  await run(script, ['up', String(n), rate]);
  try {
    const executables = [];
    for (let host = 1; host <= n; host++) {
      executables.push((await run(script, ['browser', String(host)])).stdout.trim());
    }
    return await use({ executables, address: ADDRESS });
  } finally {
    await run(script, ['down']);
  }
}
