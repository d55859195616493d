/** What `serve` prints for people on other machines. */
import { encode } from 'uqr';
import { expect, test } from 'vitest';
import { inviteOthers } from '../../launcher/output/invitation.ts';

const LINK = 'https://192.168.1.5:8080/#K7F3QX';

/** The modules of a QR code in a terminal: `true` is dark. Each character has two modules. */
function modulesOf(rows: readonly string[]): boolean[][] {
  const dark = { '█': [false, false], '▀': [false, true], '▄': [true, false], ' ': [true, true] };
  return rows.flatMap((row) => {
    // oxlint-disable-next-line no-control-regex -- colours of a terminal
    const text = /^\u001b\[38;5;231m\u001b\[48;5;16m(.*)\u001b\[0m$/.exec(row)![1]!;
    const halves = Array.from(text, (one) => dark[one as keyof typeof dark]);
    return [0, 1].map((half) => halves.map((modules) => modules[half]!));
  });
}

test('a terminal shows the first link for other machines as a QR code', () => {
  const links = [LINK, 'https://172.17.0.1:8080/#K7F3QX', 'https://localhost:8080/#K7F3QX'];
  const [title, ...rows] = inviteOthers(links, true);
  expect(title).toBe(`Other machines open ${LINK} or scan:`);
  const { data, size } = encode(LINK, { ecc: 'M', border: 2 });
  expect(modulesOf(rows).slice(0, size)).toEqual(data);
});

test('a file or a pipe gets no QR code', () => {
  expect(inviteOthers([LINK], false)).toEqual([]);
});

test('the warning about plain http says that other machines have no secure context, and names a command that helps', () => {
  const links = ['http://localhost:8080/', 'http://192.168.1.5:8080/'];
  expect(inviteOthers(links, false)).toEqual([
    'On other machines http://192.168.1.5:8080 is not a secure context, so their tabs find no GPU: browsers offer WebGPU over https only. Serve the page with --https.',
  ]);
  expect(inviteOthers(links, true)[0]).toMatch(/^Other machines open http:/);
});

test.each(['http://127.0.0.1:8080/', 'http://localhost:8080/', 'http://[::1]:8080/'])(
  'no invitation for other machines is printed for %s',
  (link) => expect(inviteOthers([link], true)).toEqual([]),
);
