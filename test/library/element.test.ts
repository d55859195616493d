/** The module of `<peergrad-room>` without a browser. Tests in tabs use the element itself. */
import { expect, test } from 'vitest';
import { roomElementTextsIn } from '../../src/library/element/texts.ts';

test('the module defines no element in Node, where a server may render the page', async () => {
  expect(globalThis).not.toHaveProperty('customElements');
  await expect(import('../../src/element.ts')).resolves.toHaveProperty('PeergradRoom');
});

test('texts say how many ranks are present, in Chinese for a Chinese locale and otherwise in English', () => {
  const { present } = roomElementTextsIn('en-GB');
  expect([present(1, 4), present(2, 4), present(1, 1), present(1, null), present(3, null)]).toEqual([
    '1 of 4 ranks is present',
    '2 of 4 ranks are present',
    '1 of 1 rank is present',
    '1 rank is present',
    '3 ranks are present',
  ]);
  expect(['zh', 'zh-Hant-TW', 'ZH-cn'].map((lang) => roomElementTextsIn(lang).present(2, 4))).toEqual(
    Array(3).fill('已有 2 / 4 个 rank'),
  );
  expect(roomElementTextsIn('').copy).toBe('Copy the link');
});
