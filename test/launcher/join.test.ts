/** The name under which a machine joins a room. */
import { expect, test } from 'vitest';
import { shortened } from '../../launcher/commands/join.ts';

test.each([
  ['gpu-3', 'gpu-3'],
  ['x'.repeat(36), 'x'.repeat(36)],
  ['gpu-node-17.cluster-4.datacenter.university.example', 'gpu-node-17.clust…niversity.example'],
  ['peergrad-join-deployment-of-the-class-7d4f8b9c5d-x2x9k', 'peergrad-join-dep…-7d4f8b9c5d-x2x9k'],
  [`${'a'.repeat(16)}😀${'b'.repeat(40)}`, `${'a'.repeat(16)}…${'b'.repeat(17)}`],
])('a long name is shortened in its middle, and no character is cut: %s', (name, expected) => {
  expect(shortened(name)).toBe(expected);
});

test.each(['x'.repeat(37), '😀'.repeat(60)])('a shortened name leaves room for the number of a tab: %s', (name) => {
  expect(shortened(name).length).toBeLessThanOrEqual(36);
});
