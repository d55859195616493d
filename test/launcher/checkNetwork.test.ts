/** The arguments and the table of `check-network`. */
import { expect, test } from 'vitest';
import { pageOf, tableOf } from '../../launcher/commands/checkNetwork.ts';

test.each([
  ['https://192.168.1.5:8080', 'https://192.168.1.5:8080/'],
  ['http://localhost:8080/#K7F3QX?name=Ada', 'http://localhost:8080/'],
  ['https://class.example/train/?a=1#network', 'https://class.example/train/'],
])('the page of %s is %s', (address, page) => {
  expect(pageOf(address)).toBe(page);
});

test.each(['192.168.1.5', 'ftp://class.example', ''])('"%s" is not the address of a page', (address) => {
  expect(() => pageOf(address)).toThrow(/is not the address of a page\. Pass one such as https/);
});

test('each result is a line with columns', () => {
  expect(
    tableOf({
      rows: [
        { name: 'Page', verdict: 'works', result: 'works', note: '' },
        { name: 'Link through the server', verdict: 'works', result: 'works, 12 MB/s', note: 'Encrypted.' },
        { name: 'STUN', verdict: 'not-tried', result: 'not tried', note: 'Not needed.' },
      ],
    }),
  ).toEqual([
    'Page                     works',
    'Link through the server  works, 12 MB/s  Encrypted.',
    'STUN                     not tried       Not needed.',
  ]);
});
