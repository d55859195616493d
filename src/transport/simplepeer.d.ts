declare module 'simple-peer/simplepeer.min.js' {
  import Peer from 'simple-peer';
  export default Peer;
}
