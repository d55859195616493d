import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { createFrame, emptyHeader, FRAME_NUMBERS, FrameKind, numberOf, writeNumber } from '../../src/protocol/frame.ts';
import { FrameOrder, MAX_WAITING_FRAMES } from '../../src/transport/frameOrder.ts';
import { ProtocolError } from '../../src/util/errors.ts';

function frame(number: number): ArrayBuffer {
  const made = createFrame(emptyHeader(FrameKind.DATA, 1), 0);
  writeNumber(made, number);
  return made;
}

describe('the order of frames of several connections', () => {
  test('is that of sending, whatever connection each frame takes', () => {
    fc.assert(
      fc.property(fc.array(fc.nat(3), { maxLength: 200 }), fc.infiniteStream(fc.nat(3)), (sentOver, arrivals) => {
        const channels: number[][] = [[], [], [], []];
        for (const [number, channel] of sentOver.entries()) channels[channel]!.push(number);
        const order = new FrameOrder();
        const ordered: number[] = [];
        while (channels.some((channel) => channel.length > 0)) {
          const next = channels[arrivals.next().value!]!.shift();
          if (next !== undefined) ordered.push(...order.add(frame(next)).map(numberOf));
        }
        expect(ordered).toEqual(sentOver.map((_, number) => number));
      }),
    );
  });

  test('continues at 0 after the last number', () => {
    const order = new FrameOrder();
    const count = FRAME_NUMBERS + 3;
    const ordered: number[][] = [];
    for (let number = 0; number < count; number += 2) {
      ordered.push(order.add(frame(number + 1)).map(numberOf), order.add(frame(number)).map(numberOf));
    }
    const wrong = ordered.flatMap((numbers, i) => {
      const expected = i % 2 === 0 ? [] : [(i - 1) % FRAME_NUMBERS, i % FRAME_NUMBERS];
      return numbers.join() === expected.join() ? [] : [{ numbers, expected }];
    });
    expect(wrong).toEqual([]);
  });

  test('fails if a number is repeated or too far ahead', () => {
    const order = new FrameOrder();
    order.add(frame(0));
    expect(() => order.add(frame(0))).toThrow(ProtocolError);
    order.add(frame(2));
    expect(() => order.add(frame(2))).toThrow(/Frame 2 .* next one is 1/);
    expect(() => order.add(frame(MAX_WAITING_FRAMES + 2))).toThrow(ProtocolError);
  });
});
