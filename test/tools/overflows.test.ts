import { expect, test } from 'vitest';
import { overflowsIn, udpOverflows } from '../../tools/network/overflows.ts';

test('the overflows of UDP sockets are those of the kernel, whatever other counters it has', () => {
  const counters = [
    'Tcp: RtoAlgorithm RcvbufErrors',
    'Tcp: 1 5',
    'Udp: InDatagrams NoPorts InErrors OutDatagrams RcvbufErrors SndbufErrors',
    'Udp: 100 1 7 90 7 0',
    'UdpLite: InDatagrams RcvbufErrors',
    'UdpLite: 0 9',
  ];
  expect(overflowsIn(counters.join('\n'))).toBe(7);
});

test.runIf(process.platform === 'linux')('this machine counts overflows', () => {
  expect(udpOverflows()).toBeGreaterThanOrEqual(0);
});
