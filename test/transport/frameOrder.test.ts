import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import {
  createFrame,
  emptyFrameHeader,
  FRAME_HEADER_BYTES,
  FRAME_NUMBER_LIMIT,
  FrameKind,
  MAX_FRAME_BYTES,
  frameNumberOf,
  writeFrameNumber,
} from '../../src/protocol/frame.ts';
import {
  DATA_CHANNEL_WINDOW,
  FrameReceiveOrder,
  FrameSendWindow,
  maxWaitingFrames,
  SERVER_LINK_WINDOW,
} from '../../src/transport/frameOrder.ts';
import { ProtocolError } from '../../src/util/errors.ts';

function frame(number: number, bytes = FRAME_HEADER_BYTES): ArrayBuffer {
  const made = createFrame(emptyFrameHeader(FrameKind.DATA, 1), bytes - FRAME_HEADER_BYTES);
  writeFrameNumber(made, number);
  return made;
}

describe('the order of frames of several connections', () => {
  test('is that of sending, whatever connection each frame takes', () => {
    fc.assert(
      fc.property(fc.array(fc.nat(3), { maxLength: 200 }), fc.infiniteStream(fc.nat(3)), (sentOver, arrivals) => {
        const channels: number[][] = [[], [], [], []];
        for (const [number, channel] of sentOver.entries()) channels[channel]!.push(number);
        const order = new FrameReceiveOrder(DATA_CHANNEL_WINDOW);
        const ordered: number[] = [];
        while (channels.some((channel) => channel.length > 0)) {
          const next = channels[arrivals.next().value!]!.shift();
          if (next !== undefined) ordered.push(...order.add(frame(next)).map(frameNumberOf));
        }
        expect(ordered).toEqual(sentOver.map((_, number) => number));
      }),
    );
  });

  test('continues at 0 after the last number', () => {
    const order = new FrameReceiveOrder(DATA_CHANNEL_WINDOW);
    const count = FRAME_NUMBER_LIMIT + 3;
    const ordered: number[][] = [];
    for (let number = 0; number < count; number += 2) {
      ordered.push(order.add(frame(number + 1)).map(frameNumberOf), order.add(frame(number)).map(frameNumberOf));
    }
    const wrong = ordered.flatMap((numbers, i) => {
      const expected = i % 2 === 0 ? [] : [(i - 1) % FRAME_NUMBER_LIMIT, i % FRAME_NUMBER_LIMIT];
      return numbers.join() === expected.join() ? [] : [{ numbers, expected }];
    });
    expect(wrong).toEqual([]);
  });

  test('fails if a number is repeated or too far ahead', () => {
    const order = new FrameReceiveOrder(DATA_CHANNEL_WINDOW);
    order.add(frame(0));
    expect(() => order.add(frame(0))).toThrow(ProtocolError);
    order.add(frame(2));
    expect(() => order.add(frame(2))).toThrow(/Frame 2 .* next one is 1/);
    expect(() => order.add(frame(maxWaitingFrames(DATA_CHANNEL_WINDOW) + 2))).toThrow(ProtocolError);
  });
});

describe('the window of a sender', () => {
  test.each([
    ['data channels', DATA_CHANNEL_WINDOW],
    ['links through the server', SERVER_LINK_WINDOW],
  ])('admits fewer frames than there are numbers, over %s', (_name, size) => {
    const window = new FrameSendWindow(size);
    let sent = 0;
    for (; window.admits(frame(0)); sent++) window.sent(frame(0));
    expect([sent, sent < FRAME_NUMBER_LIMIT]).toEqual([maxWaitingFrames(size), true]);
  });

  test('admits every frame again once all have arrived and full blocks are acknowledged', () => {
    const bytes = fc.integer({ min: FRAME_HEADER_BYTES, max: MAX_FRAME_BYTES });
    fc.assert(
      fc.property(fc.infiniteStream(bytes), (sizes) => {
        const [window, order] = [new FrameSendWindow(SERVER_LINK_WINDOW), new FrameReceiveOrder(SERVER_LINK_WINDOW)];
        let next = frame(0);
        for (let number = 1; window.admits(next); number++) {
          window.sent(next);
          order.add(next);
          next = frame(number, sizes.next().value);
        }
        for (let blocks = order.takeBlocks(); blocks > 0; blocks--) window.acknowledged();
        expect(window.admits(new ArrayBuffer(MAX_FRAME_BYTES))).toBe(true);
      }),
    );
  });
});
