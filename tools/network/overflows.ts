/** Counts the UDP packets that Linux drops on this machine. */
import { readFileSync } from 'node:fs';

const COUNTERS = '/proc/net/snmp';
const OVERFLOWS = 'RcvbufErrors';

/**
 * Returns the number of packets since the start of the machine that found a full socket. On a busy
 * machine programs read their sockets late, so packets are lost that a line has delivered.
 */
export function udpOverflows(): number {
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
