/** The permission to reach the local network, in browsers that know it by different names. */
import { expect, test } from 'vitest';
import {
  watchLocalNetworkPermission,
  type LocalNetworkPermissionFacts,
} from '../../../src/app/browser/localNetwork.ts';

class FakeStatus extends EventTarget {
  state: PermissionState;

  constructor(state: PermissionState) {
    super();
    this.state = state;
  }

  become(state: PermissionState): void {
    this.state = state;
    this.dispatchEvent(new Event('change'));
  }
}

/** A public page in a browser that knows the permission by the names in `states`. */
function publicPage(states: Record<string, FakeStatus>): LocalNetworkPermissionFacts {
  const query = async ({ name }: PermissionDescriptor): Promise<PermissionStatus> => {
    const status = states[name];
    if (status === undefined) throw new TypeError(`The provided value '${name}' is not a valid enum value.`);
    return status as EventTarget as PermissionStatus;
  };
  return { permissions: { query }, isSecure: true, host: 'class.example' };
}

async function reportsOf(page: LocalNetworkPermissionFacts): Promise<PermissionState[]> {
  const reports: PermissionState[] = [];
  await watchLocalNetworkPermission(page, (state) => reports.push(state));
  return reports;
}

test.each(['local-network', 'local-network-access'])(
  'the permission with the name %s and its later changes are reported',
  async (name) => {
    const status = new FakeStatus('prompt');
    const reports = await reportsOf(publicPage({ [name]: status }));
    status.become('denied');
    status.become('granted');
    expect(reports).toEqual(['prompt', 'denied', 'granted']);
  },
);

test('a browser that knows both names of the permission reports the newer one', async () => {
  const states = { 'local-network': new FakeStatus('granted'), 'local-network-access': new FakeStatus('denied') };
  expect(await reportsOf(publicPage(states))).toEqual(['granted']);
});

test('browsers without the permission report nothing', async () => {
  expect(await reportsOf(publicPage({}))).toEqual([]);
  expect(await reportsOf({ permissions: undefined, isSecure: true, host: 'class.example' })).toEqual([]);
});

test('pages that are not secure or are in the local network report nothing', async () => {
  const page = publicPage({ 'local-network': new FakeStatus('denied') });
  expect(await reportsOf({ ...page, isSecure: false })).toEqual([]);
  const local = ['localhost', '127.0.0.1', '192.168.1.5', '10.0.0.7', '172.20.1.1', 'ada.local', '[::1]', '[fd00::1]'];
  for (const host of local) expect(await reportsOf({ ...page, host }), host).toEqual([]);
  for (const host of ['172.32.0.1', '10.example.org', 'localhost.example', '[2001:db8::1]']) {
    expect(await reportsOf({ ...page, host }), host).toEqual(['denied']);
  }
});
