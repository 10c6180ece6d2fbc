# Stands in for Vivado: tclsh vivado_stubs.tcl SCRIPT ARGS... sources SCRIPT with every command of the vendor's that package.tcl
# may use recorded on standard output, and no other command known. Objects are handles; a query gives one. What is packaged
# has a top in Verilog, as AMD UG1118 ("Top-Level HDL Requirements") wants it: SystemVerilog only below.
proc record {name args} {
  puts [list $name {*}$args]
  switch -- $name {
    ipx::current_core {return core_1}
    current_fileset {return sources_1}
    get_files {return [lindex $args end]}
    current_project {return project_1}
    create_ip {
      array set options $args
      foreach key {-name -vendor -library -module_name} {
        if {![info exists options($key)]} {error "create_ip: $key is missing"}
      }
      lappend ::made $options(-module_name)
    }
    get_ips {
      if {[llength $args] == 0} {return $::made}
      if {[lsearch -exact $::made [lindex $args 0]] < 0} {error "get_ips: no core [lindex $args 0] was created"}
      return [lindex $args 0]
    }
    ipx::add_bus_interface {lappend ::buses [lindex $args 0]}
    ipx::get_bus_interfaces {
      if {[lsearch -exact $::buses [lindex $args 0]] < 0} {error "ipx::get_bus_interfaces: no [lindex $args 0]"}
      return bus_[lindex $args 0]
    }
    ipx::get_port_maps {return map_[lindex $args 0]}
    get_cells {
      # One cell below the platform; none of an instance that synthesis dissolved.
      if {![regexp {^NAME =~ \*/([^* ]+)$} [lindex $args end] -> path]} {error "get_cells: a filter by name is expected"}
      if {[file tail $path] eq "dissolved"} {return ""}
      return level0_i/ulp/$path
    }
    add_files {
      # As Vivado does: every file named must be there.
      foreach file [lindex $args end] {
        if {![file exists $file]} {error "add_files: no such file $file"}
        lappend ::added $file
      }
    }
    set_property {
      if {[lindex $args 0] eq "top"} {set ::top [lindex $args 1]}
    }
    ipx::package_project {
      if {$::top eq ""} {error "ipx::package_project: no top is set"}
      set file [file_of_module $::top]
      if {[file extension $file] ne ".v"} {error "ipx::package_project: top $::top is not Verilog: [file tail $file]"}
    }
    set_msg_config {
      array set options $args
      if {$options(-new_severity) eq "ERROR"} {lappend ::errors $options(-id)}
    }
    synth_design {
      # Vivado goes on without a memory file unless these messages are errors.
      foreach id {{Synth 8-4445} {Synth 8-2898}} {
        if {[lsearch -exact $::errors $id] < 0} {error "synth_design: message $id is not an error"}
      }
    }
    get_ports - get_nets {return $args}
    get_clocks {return [lindex $args end]}
    create_clock {
      array set options [lrange $args 0 end-1]
      foreach key {-name -period} {
        if {![info exists options($key)]} {error "create_clock: $key is missing"}
      }
    }
    package_xo {
      array set options $args
      foreach key {-xo_path -kernel_name -ip_directory -kernel_xml} {
        if {![info exists options($key)]} {error "package_xo: $key is missing"}
      }
      if {![file exists $options(-kernel_xml)]} {error "package_xo: no such file $options(-kernel_xml)"}
    }
  }
  return ""
}
# Which of the files added has a module.
proc file_of_module {name} {
  foreach file $::added {
    set in [open $file]
    set text [read $in]
    close $in
    if {[regexp "(?n)^\\s*module\\s+$name\\M" $text]} {return $file}
  }
  error "no module $name in the files added"
}
set made {}
set errors {}
set buses {}
set added {}
set top {}
namespace eval ipx {}
foreach name {create_project add_files set_property get_files current_fileset update_compile_order close_project package_xo
              ipx::package_project ipx::current_core ipx::infer_bus_interface ipx::associate_bus_interfaces
              set_msg_config synth_design close_design create_clock set_clock_groups get_ports get_nets get_clocks
              create_ip get_ips get_cells generate_target current_project ipx::remove_bus_interface ipx::add_bus_interface
              ipx::get_bus_interfaces ipx::add_port_map ipx::get_port_maps ipx::update_checksums ipx::check_integrity ipx::save_core} {
  interp alias {} $name {} record $name
}
set script [lindex $argv 0]
set argv [lrange $argv 1 end]
set argc [llength $argv]
source $script
