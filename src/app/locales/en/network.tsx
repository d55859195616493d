/** The page that checks the network. */
import type { NetworkAdvice, NetworkCheckResult } from '../../../protocol/networkCheck.ts';

type Verdict = NetworkCheckResult<never, never, never>['verdict'];

const verdicts: Record<Verdict, string> = {
  running: 'checking …',
  works: 'works',
  fails: 'fails',
  'not-tried': 'not tried',
};

/** @param rate rate of the slowest link through the server, such as `12 MB/s`. */
const advice: Record<NetworkAdvice, (rate: string) => string> = {
  wait: () => 'Checking …',
  unreachable: () =>
    'The page loads, but its WebSocket does not connect, so tabs cannot enter a room. Ask the administrator to allow WebSockets to this server, or use https.',
  refused: () => 'The server answers, but does not admit this page. The row of the WebSocket says why.',
  alone: () => 'This device reaches the server. Open this page on a second device to check the links between devices.',
  direct: () => 'Everything works. Tabs will link directly.',
  relayed: () => 'Training works. Some tabs link over the TURN server.',
  mixed: (rate) =>
    `Training works. Some devices cannot reach each other directly, so their tabs connect through the server; these connections share about ${rate}.`,
  isolated: (rate) =>
    `This network separates devices. Training works through the server, at about ${rate} for all pairs together. Another network or a TURN server would be faster.`,
  'only-server': (rate) =>
    `Training works through the server, at about ${rate} for all pairs together. The server was started with --server-links only, so tabs do not link directly.`,
  'one-browser': (rate) =>
    `Training works at least through the server, at about ${rate}. Open this page on a second device to check whether devices can reach each other.`,
  'one-browser-only': () => 'Open this page on a second device. Two tabs of one browser do not check the network.',
  off: () =>
    'Devices cannot reach each other directly, and the server was started with --server-links off. Start it without this option, or use another network.',
  none: () =>
    'Devices can reach each other neither directly nor through the server. Ask the administrator to allow WebSockets to this server and UDP between devices, or use another network.',
};

const noWebRtc = 'This browser offers no WebRTC. An extension may have disabled it.';
const noServer = 'This page could not enter a room, so it has no address of such a server.';

export const networkTexts = {
  title: 'Check this network',
  link: 'Check the network ↗',
  lead: 'Open this page on two or more devices, in the room and on the network of the lesson.',
  address: 'Address for other devices:',
  again: 'Check again',
  results: 'Results',
  verdicts,
  colon: ': ',
  comma: ', ',
  speed: (rate: string | null, roundTrip: string) =>
    rate === null ? `round trip ${roundTrip}` : `${rate}, round trip ${roundTrip}`,
  thisBrowser: (name: string) => `${name} (same browser)`,
  otherTab: 'another device',
  names: {
    page: 'Page',
    socket: 'WebSocket to the server',
    addresses: 'Local addresses',
    stun: 'STUN',
    turn: 'TURN',
    direct: (name: string) => `Data channel to ${name}`,
    server: (name: string) => `Link through the server to ${name}`,
  },
  noOtherTab: 'No other device shows this page now.',
  /** Texts about results, by the check and the result. */
  page: {
    secure: '',
    insecure: 'Plain http: tabs cannot use WebGPU, and links through the server are not encrypted. Use https.',
  },
  socket: {
    answered: '',
    'no-answer': 'Without it, tabs cannot enter a room. A proxy or a firewall may block WebSockets.',
    refused: 'The server answers, but refuses this page.',
  },
  addresses: {
    names: 'The browser hides addresses behind names, and devices find these names only by multicast.',
    addresses: 'The browser gives its real addresses.',
    'no-webrtc': noWebRtc,
    none: 'The browser gives no address. A VPN or a privacy extension may hide it.',
  },
  ice: {
    found: '',
    none: 'The signaling server names no such server. Within one building, none is needed.',
    'no-server': noServer,
    'no-webrtc': noWebRtc,
    'no-answer': 'The server does not answer this device. Check its address, and check that its port is open.',
  },
  direct: {
    direct: '',
    relayed: 'It crosses the TURN server.',
    'no-connection':
      'The two devices cannot reach each other directly. The network may separate its devices, block multicast or UDP, or have several subnets.',
    'too-slow': 'The channel opened but was too slow, or broke.',
    'no-webrtc': noWebRtc,
    'only-server': 'The server was started with --server-links only.',
  },
  server: {
    encrypted: 'Encrypted between the devices.',
    clear: 'Not encrypted, because one of the two pages is open over plain http.',
    'no-link': 'The server did not link the two devices.',
    'too-slow': 'The link opened but was too slow, or broke.',
    off: 'The server was started with --server-links off.',
  },
  advice,
};
