import { createSocket } from 'node:dgram';
import { once } from 'node:events';
import { expect, test } from 'vitest';
import { countOverflows, overflowsIn } from '../../tools/network/overflows.ts';

test('the UDP overflows of the kernel are found among its other counters', () => {
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

test.runIf(process.platform === 'linux')(
  'packets are counted as overflows if the program does not read them in time',
  async () => {
    const receiver = createSocket({ type: 'udp4', recvBufferSize: 4096 });
    const sender = createSocket('udp4');
    try {
      receiver.bind(0, '127.0.0.1');
      await once(receiver, 'listening');
      sender.connect(receiver.address().port, '127.0.0.1');
      await once(sender, 'connect');
      const overflows = countOverflows();
      // This thread reads no packet before the loop has ended.
      for (let i = 0; i < 100; i++) sender.send(Buffer.alloc(1200));
      expect(overflows()).toBeGreaterThan(0);
    } finally {
      receiver.close();
      sender.close();
    }
  },
);
