import type { UiMessages } from '../en/index.ts';

const noWebRtc = '这个浏览器没有 WebRTC，可能被某个扩展关闭了。';

export const networkTexts: UiMessages['network'] = {
  title: '检查网络',
  link: '检查网络 ↗',
  lead: '请在上课用的房间和网络里，用两台或更多设备打开本页。',
  address: '其他设备打开的地址：',
  again: '再检查一次',
  results: '结果',
  verdicts: { running: '检查中……', works: '正常', fails: '不通', 'not-tried': '未试' },
  colon: '：',
  comma: '，',
  speed: (rate, roundTrip) => (rate === null ? `往返 ${roundTrip}` : `${rate}，往返 ${roundTrip}`),
  thisBrowser: (name) => `${name}（同一浏览器）`,
  otherTab: '另一台设备',
  names: {
    page: '页面',
    socket: '到服务器的 WebSocket',
    addresses: '本地地址',
    stun: 'STUN',
    turn: 'TURN',
    direct: (name) => `到 ${name} 的数据通道`,
    server: (name) => `经服务器到 ${name} 的链路`,
  },
  noOtherTab: '现在没有别的设备打开本页。',
  page: {
    secure: '',
    insecure: '普通 http：标签页没有 WebGPU，经服务器的链路也不加密。请用 https。',
  },
  socket: {
    answered: '',
    'no-answer': '没有它，标签页无法进入房间。代理或防火墙可能阻止了 WebSocket。',
    refused: '服务器有回应，但拒绝了本页。',
  },
  addresses: {
    names: '浏览器用名称代替地址，设备之间需要组播才能查到。',
    addresses: '浏览器给出了真实地址。',
    'no-webrtc': noWebRtc,
    none: '浏览器没有给出地址，可能被 VPN 或隐私扩展隐藏了。',
  },
  ice: {
    found: '',
    none: '服务器没有指定。在同一栋楼里不需要。',
    'no-server': '本页没有进入房间，所以不知道这样的服务器。',
    'no-webrtc': noWebRtc,
    'no-answer': '从这里得不到回应。请检查它的地址，以及端口是否开放。',
  },
  direct: {
    direct: '',
    relayed: '经过 TURN 服务器。',
    'no-connection': '两台设备互相连不通。网络可能隔离了设备，阻止了组播或 UDP，或者分成了几个子网。',
    'too-slow': '通道打开了，但太慢或中断了。',
    'no-webrtc': noWebRtc,
    'only-server': '服务器启动时用了 --server-links only。',
  },
  server: {
    encrypted: '设备之间加密。',
    clear: '没有加密，因为有页面是用普通 http 打开的。',
    'no-link': '服务器没有连起这两台设备。',
    'too-slow': '链路打开了，但太慢或中断了。',
    off: '服务器启动时用了 --server-links off。',
  },
  advice: {
    wait: () => '检查中……',
    unreachable: () =>
      '页面能打开，但它的 WebSocket 不通，所以标签页无法进入房间。请管理员放行到这台服务器的 WebSocket，或改用 https。',
    refused: () => '服务器有回应，但不让本页进入。原因见 WebSocket 那一行。',
    alone: () => '这台设备能连到服务器。请在第二台设备上打开本页，检查设备之间的链路。',
    direct: () => '一切正常。标签页会直接相连。',
    relayed: () => '可以训练。部分标签页经 TURN 服务器相连。',
    mixed: (rate) => `可以训练。部分设备互相连不通，它们的标签页经服务器相连，所有这样的链路合计约 ${rate}。`,
    isolated: (rate) => `这个网络隔离了设备。可以经服务器训练，所有链路合计约 ${rate}。换一个网络或用 TURN 会更快。`,
    'only-server': (rate) =>
      `可以经服务器训练，所有链路合计约 ${rate}。服务器启动时用了 --server-links only，所以标签页不直接相连。`,
    'one-browser': (rate) => `至少可以经服务器训练，约 ${rate}。请在第二台设备上打开本页，检查设备能否互相连通。`,
    'one-browser-only': () => '请在第二台设备上打开本页。同一浏览器的两个标签页检查不了网络。',
    off: () => '设备互相连不通，而服务器启动时用了 --server-links off。请去掉这个选项，或换一个网络。',
    none: () =>
      '设备既不能直接相连，也不能经服务器相连。请管理员放行到这台服务器的 WebSocket，并允许设备之间的 UDP，或换一个网络。',
  },
};
