# What the nodes of a trial do: workers read a capture once the cluster is there, each writes LIVE_LINES lines to a log of
# its own, and all say whom they have up.

@load policy/frameworks/cluster/backend/zeromq
redef Cluster::Backend::ZeroMQ::run_proxy_thread = F;
redef Cluster::Backend::ZeroMQ::connect_xpub_endpoint = getenv("LIVE_XPUB");
redef Cluster::Backend::ZeroMQ::connect_xsub_endpoint = getenv("LIVE_XSUB");
redef exit_only_after_terminate = T;
redef Log::default_rotation_interval = 0sec;

@if ( getenv("LIVE_LOGGER") != "" )
redef Cluster::Backend::ZeroMQ::connect_log_endpoints += { getenv("LIVE_LOGGER") };
@endif

module Live;

export {
	redef enum Log::ID += { LOG };
	type Info: record {
		ts: time &log;
		worker: string &log;
		n: count &log;
		host: addr &log;
		p: port &log;
		took: interval &log;
		net: subnet &log;
		ratio: double &log;
		ok: bool &log;
		tags: set[string] &log;
		path: vector of string &log;
		raw: string &log;
	};
	global tick: event(name: string, n: count);
	global write: event(n: count);
	global whom: event();
	## Asks each node whom it has up; each answers with `up`.
	global who: event(number: count);
	global up: event(number: count, name: string, nodes: set[string]);
	## The lines that a worker writes.
	const lines = to_count(getenv("LIVE_LINES")) &redef;
	const control = "/live/control";
	const answers = "/live/answers";
}

global nodes_up: set[string] = set();
global ticks: count = 0;

event Live::write(n: count)
	{
	local m = n;
	while ( m < n + 100 && m < lines )
		{
		Log::write(Live::LOG, [$ts=current_time(), $worker=Cluster::node, $n=m, $host=count_to_v4_addr(m), $p=count_to_port(m % 65536, tcp),
			$took=double_to_interval(m * 0.5), $net=192.0.2.0/24, $ratio=m / 3.0, $ok=(m % 2 == 0),
			$tags=set("a", fmt("%d", m % 7)), $path=vector("x", "y"), $raw=(m % 10 == 0 ? "\xff\xfe raw" : "plain")]);
		++m;
		}
	if ( m < lines )
		schedule 10msec { Live::write(m) };
	}

event Live::beat()
	{
	Cluster::publish("/live/ticks", Live::tick, Cluster::node, ++ticks);
	schedule 100msec { Live::beat() };
	}

event Live::who(number: count)
	{
	Cluster::publish(answers, Live::up, number, Cluster::node, nodes_up);
	}

event zeek_init()
	{
	Log::create_stream(Live::LOG, [$columns=Info, $path="live"]);
	Cluster::subscribe(control);
	schedule 1sec { Live::beat() };
	}

event Cluster::node_up(name: string, id: string)
	{
	if ( name == "manager" && Cluster::local_node_type() == Cluster::WORKER )
		schedule 2sec { Live::write(0) };
	add nodes_up[name];
	print fmt("%.3f up %s %s", current_time(), name, id);
	}

event Cluster::node_down(name: string, id: string)
	{
	delete nodes_up[name];
	print fmt("%.3f down %s %s", current_time(), name, id);
	}
