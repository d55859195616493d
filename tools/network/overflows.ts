/** Counts the UDP packets that Linux drops because a socket is full. */
import { readFileSync } from 'node:fs';

const COUNTERS = '/proc/net/snmp';
const OVERFLOWS = 'RcvbufErrors';

/**
 * Starts to count packets that found a full socket on this machine. On a busy machine, programs
 * read their sockets late, so packets that a line has delivered are lost.
 *
 * @returns a function that returns their number since the start.
 */
export function countOverflows(): () => number {
  const before = readOverflows();
  return () => readOverflows() - before;
}

function readOverflows(): number {
  return overflowsIn(readFileSync(COUNTERS, 'utf8'));
}

/** @param counters the text of {@link COUNTERS}: a line of names and one of values per protocol. */
export function overflowsIn(counters: string): number {
  const [names, values] = counters
    .split('\n')
    .filter((line) => line.startsWith('Udp:'))
    .map((line) => line.split(' '));
  return Number(values![names!.indexOf(OVERFLOWS)]);
}
